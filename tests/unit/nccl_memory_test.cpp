// Memory of a reducer's buckets on the fake devices: allocated by NCCL and registered, or ordinary.
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/reducer_model.hpp"
#include "worker_runtime/group/device_queue_of.hpp"
#include <ddprun/error.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace nccl_memory_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

constexpr int kSteps = 5;
constexpr int kBuckets = 3;  // of the model with kSmallBuckets

struct DeviceModel : Model {
  DeviceModel() {
    for (auto& parameter : parameters) parameter.values.device = kDevice;
  }
};

/// A step whose gradients are correct.
void take_step(GradientReducer& reducer, ProcessGroup& group, int step) {
  reducer.zero_gradients();
  reducer.begin();
  backward(reducer, group.rank(), step);
  reducer.finish();
  const auto ranks = group.size();
  require_gradients(reducer, ranks, step, static_cast<float>(ranks));
}

void train(ProcessGroup& group, const ReducerOptions& options = kSmallBuckets) {
  DeviceModel model;
  GradientReducer reducer(group, model.parameters, {}, options);
  for (int step = 0; step < kSteps; ++step) take_step(reducer, group, step);
}

/// Changes of counters since the construction of this object.
struct Counts {
  int registrations() const { return fake_registrations() - registrations_; }
  int all_reduces() const { return fake_all_reduces_without_copies() - all_reduces_; }

 private:
  const int registrations_ = fake_registrations();
  const int all_reduces_ = fake_all_reduces_without_copies();
};

/// Collects log messages of the ranks of a group.
class Lines {
 public:
  Log log() {
    return [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::info) lines_.emplace_back(line);
    };
  }
  /// Sorted.
  std::vector<std::string> get() {
    const std::lock_guard lock(mutex_);
    std::sort(lines_.begin(), lines_.end());
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::string refusal(int rank, const std::string& reason) {
  return "process group \"default\": rank " + std::to_string(rank) +
         " has no memory that NCCL reduces without copies: " + reason;
}

/// The fake NCCL without one of its functions.
template <auto kFunction>
const nccl::DeviceTable& table_without() {
  static const nccl::NcclCalls calls = [] {
    nccl::NcclCalls made = fake_nccl();
    made.*kFunction = nullptr;
    return made;
  }();
  static const nccl::Libraries libraries = [] {
    nccl::Libraries made = fake_libraries();
    made.nccl = []() -> const nccl::NcclCalls& { return calls; };
    return made;
  }();
  static const nccl::DeviceTable table = nccl::make_device_table(libraries);
  return table;
}

/// Creates the communicator that memory is registered with.
void meet(ProcessGroup& group) {
  std::vector<float> values(10, 1);
  group.all_reduce(on_device(values)).wait();
}

std::shared_ptr<void> allocate_registered(const ProcessGroup& group, std::size_t bytes) {
  return device_queue_of(group)->allocate_registered(bytes);
}

}  // namespace

TEST_SUITE("nccl memory") {
  TEST_CASE("nccl memory: buckets are registered once and reduced without copies") {
    for (const int ranks : {2, 3}) {
      CAPTURE(ranks);
      const CleanDevices clean;
      const Counts counts;
      Lines lines;
      run_ranks(device_ranks(ranks, {.log = lines.log()}), [](ProcessGroup& group) {
        DeviceModel model;
        GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
        for (int step = 0; step < kSteps; ++step) {
          take_step(reducer, group, step);
          CHECK(fake_registered() == kBuckets * group.size());
        }
        group.barrier().wait();
      });
      CHECK(counts.registrations() == kBuckets * ranks);
      CHECK(counts.all_reduces() == kSteps * kBuckets * ranks);
      CHECK(lines.get().empty());
    }
  }

  TEST_CASE("nccl memory: rebuilt buckets replace the registered ones") {
    const CleanDevices clean;
    const Counts counts;
    auto options = kSmallBuckets;
    options.rebuild_buckets = true;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      DeviceModel model;
      GradientReducer reducer(group, model.parameters, {}, options);
      for (int step = 0; step < kSteps; ++step) {
        reducer.zero_gradients();
        reducer.begin();
        for (const std::size_t p : {0u, 2u, 4u, 1u, 3u}) {
          add_gradient(reducer, group.rank(), step, p);
          reducer.ready(p);
        }
        reducer.finish();
        require_gradients(reducer, 2, step, 2);
      }
      group.barrier().wait();
      CHECK(reducer.layout() == 1);
      CHECK(fake_registered() == static_cast<int>(2 * reducer.plan().buckets.size()));
      group.barrier().wait();
    });
    CHECK(counts.registrations() > 2 * kBuckets);
  }

  TEST_CASE("nccl memory: no memory is registered by a single rank or in compatible mode") {
    const CleanDevices clean;
    const Counts counts;
    run_ranks(device_ranks(1), [](ProcessGroup& group) { train(group); });
    auto options = kSmallBuckets;
    options.sequence = CollectiveSequence::pytorch;
    run_ranks(device_ranks(2), [&](ProcessGroup& group) { train(group, options); });
    CHECK(counts.registrations() == 0);
  }

  TEST_CASE("nccl memory: results are the same with an NCCL that lacks registration") {
    for (const auto* table : {&table_without<&nccl::NcclCalls::mem_alloc>(),
                              &table_without<&nccl::NcclCalls::comm_register>()}) {
      const CleanDevices clean;
      const Counts counts;
      Lines lines;
      run_ranks(device_ranks(2, {.log = lines.log()}, *table),
                [](ProcessGroup& group) { train(group); });
      CHECK(counts.registrations() == 0);
      const std::string reason = "this NCCL is older than 2.19 and registers no memory";
      CHECK(lines.get() == std::vector{refusal(0, reason), refusal(1, reason)});
    }
  }

  TEST_CASE("nccl memory: CUDA memory is used if an NCCL allocation fails") {
    const CleanDevices clean;
    nccl_faults().allocation = ncclUnhandledCudaError;
    const Counts counts;
    Lines lines;
    run_ranks(device_ranks(2, {.log = lines.log()}), [](ProcessGroup& group) { train(group); });
    CHECK(counts.registrations() == 0);
    const std::string reason = "ncclMemAlloc of 20 bytes: an error of the fake";
    CHECK(lines.get() == std::vector{refusal(0, reason), refusal(1, reason)});
  }

  TEST_CASE("nccl memory: a failed registration on one rank is undone on all ranks") {
    const CleanDevices clean;
    nccl_faults().registration = ncclSystemError;
    const Counts counts;
    Lines lines;
    run_ranks(device_ranks(3, {.log = lines.log()}), [](ProcessGroup& group) {
      DeviceModel model;
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      for (int step = 0; step < kSteps; ++step) take_step(reducer, group, step);
      CHECK(fake_registered() == 0);
    });
    CHECK(counts.registrations() == 2 * kBuckets);
    CHECK(counts.all_reduces() == 0);
    CHECK(lines.get() ==
          std::vector{refusal(1, "ncclCommRegister of 20 bytes: an error of the fake")});
  }

  TEST_CASE("nccl memory: buffers are copied if NCCL_LOCAL_REGISTER disables registration") {
    const CleanDevices clean;
    nccl_faults().only_seems_to_register = true;
    Lines lines;
    run_ranks(device_ranks(2, {.log = lines.log()}), [](ProcessGroup& group) { train(group); });
    const std::string reason =
        "ncclCommRegister of 20 bytes: not done (NCCL_LOCAL_REGISTER may forbid it)";
    CHECK(lines.get() == std::vector{refusal(0, reason), refusal(1, reason)});
  }

  TEST_CASE("nccl memory: no memory is registered without a communicator") {
    const CleanDevices clean;
    Lines lines;
    run_ranks(device_ranks(2, {.log = lines.log()}), [](ProcessGroup& group) {
      if (group.rank() == 0) CHECK(allocate_registered(group, 100) == nullptr);
      group.barrier().wait();
    });
    CHECK(lines.get() == std::vector{refusal(0, "ncclCommRegister of 100 bytes: no communicator")});
  }

  TEST_CASE("nccl memory: registered memory is zeroed and can outlive its communicator") {
    const CleanDevices clean;
    std::vector<std::shared_ptr<void>> kept(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      meet(group);
      auto memory = allocate_registered(group, 100);
      const auto* const bytes = static_cast<const char*>(memory.get());
      CHECK(std::all_of(bytes, bytes + 100, [](char byte) { return byte == 0; }));
      kept[static_cast<std::size_t>(group.rank())] = allocate_registered(group, 50);
      group.barrier().wait();
      CHECK(fake_registered() == 4);
      group.barrier().wait();
      memory.reset();
      group.barrier().wait();
      CHECK(fake_registered() == 2);
      // Each rank keeps its memory until the other has checked.
      group.barrier().wait();
    });
    CHECK(fake_registered() == 0);
    CHECK(fake_cuda_objects() == 2);
    kept.clear();
  }

  TEST_CASE("nccl memory: memory can be registered and freed during collectives") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      meet(group);
      std::vector<std::vector<float>> values(50, std::vector<float>(10, 1));
      std::vector<Work> works;
      for (auto& one : values) {
        works.push_back(group.all_reduce(on_device(one)));
        CHECK(allocate_registered(group, 100) != nullptr);
      }
      for (const auto& work : works) work.wait();
      for (const auto& one : values) CHECK(one == std::vector<float>(10, 2));
    });
  }

  TEST_CASE("nccl memory: the group after an aborted one registers its own buckets") {
    for (const auto* table :
         {&fake_device_table(), &table_without<&nccl::NcclCalls::comm_revoke>()}) {
      const CleanDevices clean;
      const Counts counts;
      for (int round = 0; round < 2; ++round) {
        std::latch have_met(2);
        run_ranks(device_ranks(2, {}, *table), [&](ProcessGroup& group) {
          DeviceModel model;
          std::optional<GradientReducer> reducer;
          reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
          take_step(*reducer, group, 0);
          have_met.arrive_and_wait();
          if (group.rank() == 1) {
            group.abort("asked to");
          } else {
            CHECK_THROWS_AS(take_step(*reducer, group, 1), PeerFailed);
          }
          reducer.reset();
        });
      }
      run_ranks(device_ranks(2, {}, *table), [](ProcessGroup& group) { train(group); });
      CHECK(counts.registrations() == 3 * 2 * kBuckets);
    }
  }

  TEST_CASE("nccl memory: memory that outlives an aborted communicator is not deregistered") {
    for (const auto* table :
         {&fake_device_table(), &table_without<&nccl::NcclCalls::comm_revoke>()}) {
      const CleanDevices clean;
      std::vector<std::shared_ptr<void>> kept(2);
      std::latch have_met(2);
      run_ranks(device_ranks(2, {}, *table), [&](ProcessGroup& group) {
        meet(group);
        kept[static_cast<std::size_t>(group.rank())] = allocate_registered(group, 50);
        have_met.arrive_and_wait();
        if (group.rank() == 1) return group.abort("asked to");
        CHECK_THROWS_AS(meet(group), PeerFailed);
        CHECK(allocate_registered(group, 100) == nullptr);
      });
      CHECK(fake_cuda_objects() == 2);
      kept.clear();
    }
  }
}

}  // namespace nccl_memory_test
