// The process group itself: order, bounds, misuse and failure. collectives_test.cpp checks the
// results of collectives.
#include "tests/support/failure_text.hpp"
#include "tests/support/limited_address_space.hpp"
#include "tests/support/rank_threads.hpp"
#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/backends/host/shared_memory/messages.hpp"
#include "worker_runtime/backends/module/module_backend.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace process_group_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

GroupOptions with_timeout(Deadline::Duration timeout) {
  GroupOptions options;
  options.arena_bytes = 8 << 20;
  options.collective_timeout = timeout;
  return options;
}

}  // namespace

TEST_SUITE("process group") {
  TEST_CASE("process group: an invalid call is rejected and the group stays usable") {
    run_ranks(2, [](ProcessGroup& group) {
      std::vector<float> values(6);
      std::vector<double> doubles(6);
      const Buffer six = as_buffer(values.data(), 6);
      const Buffer three = as_buffer(values.data(), 3);
      const Buffer null{.data = nullptr, .elements = 4};
      const Buffer cuda{.data = values.data(), .elements = 4, .device = {Device::Kind::cuda, 1}};
      CHECK(describe_failure([&] { (void)group.all_reduce(null); }) ==
            "usage: all_reduce: input of 4 elements has no memory (data is null)");
      CHECK(describe_failure([&] { (void)group.all_reduce(cuda); }) ==
            "usage: all_reduce: input is on CUDA device 1; this backend supports only host memory");
      CHECK(describe_failure([&] { (void)group.broadcast(six, 2); }) ==
            "usage: broadcast: root 2 is not within 0..1");
      CHECK(describe_failure([&] { (void)group.reduce(six, -1); }) ==
            "usage: reduce: root -1 is not within 0..1");
      CHECK(describe_failure([&] { (void)group.all_gather(six, six); }) ==
            "usage: all_gather: output has 6 elements; 2 times the 6 of input are needed");
      CHECK(describe_failure([&] { (void)group.reduce_scatter(three, six); }) ==
            "usage: reduce_scatter: input has 3 elements; 2 times the 6 of output are needed");
      CHECK(describe_failure([&] {
              (void)group.all_gather(three, as_buffer(doubles.data(), 6));
            }) == "usage: all_gather: input is float32 but output is float64");
      CHECK(describe_failure([&] { (void)group.all_to_all(three, three); }) ==
            "usage: all_to_all: 3 elements cannot be divided among 2 ranks");
      const Buffer unknown{.data = values.data(), .elements = 4, .type = static_cast<DataType>(99)};
      CHECK(describe_failure([&] { (void)group.all_reduce(unknown); }) ==
            "usage: all_reduce: input: invalid data type 99 (valid: 0 to 6)");
      CHECK(describe_failure([&] { (void)group.all_reduce(three, static_cast<ReduceOp>(77)); }) ==
            "usage: all_reduce: invalid reduction 77 (valid: 0 to 4)");
      for (const std::size_t elements : {SIZE_MAX / 4, SIZE_MAX / 8, (SIZE_MAX >> 10) + 1}) {
        const Buffer huge{.data = values.data(), .elements = elements};
        CHECK(describe_failure([&] { (void)group.all_reduce(huge); }) ==
              "usage: all_reduce: input of " + std::to_string(elements) +
                  " elements of float32 is larger than any memory");
      }
      const Buffer odd{.data = reinterpret_cast<std::byte*>(values.data()) + 1, .elements = 2};
      CHECK(describe_failure([&] { (void)group.broadcast(odd, 0); }) ==
            "usage: broadcast: input is not aligned to the 4 bytes of a float32");
      const Buffer others_part = six.slice(3 * (1 - static_cast<std::size_t>(group.rank())), 3);
      CHECK(describe_failure([&] { (void)group.all_gather(others_part, six); }) ==
            "usage: all_gather: input and output overlap in more than the part of rank " +
                std::to_string(group.rank()));
      CHECK(describe_failure([&] { (void)group.all_to_all(six.slice(0, 4), six.slice(2, 4)); }) ==
            "usage: all_to_all: input and output overlap but are not the same buffer");
      CHECK(describe_failure([&] { (void)group.send(six, 2); }) ==
            "usage: send: rank 2 is not within 0..1");
      group.barrier().wait();
    });
    CHECK(describe_failure([] { ProcessGroup::create_in_process(0); }).find("usage: ") == 0);
    CHECK(describe_failure([] { ProcessGroup::create_in_process(1025); }).find("usage: ") == 0);
  }

  TEST_CASE("process group: ranks and sizes out of range are rejected without a wait") {
    struct Row {
      int rank;
      int world_size;
      int local_rank;
      int local_world_size;
      std::string problem;
    };
    const int most = std::numeric_limits<int>::max();
    for (const auto& row : std::vector<Row>{
             {0, 0, 0, 1, "world_size=0 is not within 1..2147483647"},
             {0, -3, 0, 1, "world_size=-3 is not within 1..2147483647"},
             {99, 2, 0, 1, "rank=99 is not below world_size=2"},
             {-1, 2, 0, 1, "rank=-1 is not within 0..2147483647"},
             {most, most, 0, 1, "rank=2147483647 is not below world_size=2147483647"},
             {0, 2, 3, 2, "local_rank=3 is not below local_world_size=2"},
             {0, 2, -1, 0,
              "local_world_size=0 is not within 1..2147483647; local_rank=-1 is not within "
              "0..2147483647"},
         }) {
      WorkerEnv env;
      env.rank = row.rank;
      env.world_size = row.world_size;
      env.local_rank = row.local_rank;
      env.local_world_size = row.local_world_size;
      env.master_port = 1;
      CHECK(describe_failure([&] { ProcessGroup::create(env, {.backend = "host"}); }) ==
            "usage: process group: " + row.problem);
    }
  }

  TEST_CASE("process group: invalid options are rejected without a wait") {
    const std::string longest(kGroupNameBytesMax, 'n');
    struct Row {
      std::function<void(GroupOptions&)> change;
      std::string problem;
    };
    for (const auto& [change, problem] : std::vector<Row>{
             {[](auto& options) { options.join_timeout = 0s; }, "join_timeout has to be above 0"},
             {[](auto& options) { options.join_timeout = -1s; }, "join_timeout has to be above 0"},
             {[](auto& options) { options.collective_timeout = 0s; },
              "collective_timeout has to be above 0"},
             {[](auto& options) { options.waiting_notice = 0s; },
              "waiting_notice has to be above 0"},
             {[](auto& options) { options.name = ""; }, "its name is empty"},
             {[](auto& options) { options.name = "a\nb"; }, "its name has a control character"},
             {[](auto& options) { options.name = "a\x7f"; }, "its name has a control character"},
             {[&](auto& options) { options.name = longest + "n"; },
              "its name has 257 bytes, at most 256 are possible"},
             {[](auto& options) { options.arena_bytes = kArenaBytesMax + 1; },
              "arena_bytes is 4503599627370497, must be at most 4503599627370496"},
             {[](auto& options) { options.arena_bytes = SIZE_MAX; },
              "arena_bytes is 18446744073709551615, must be at most 4503599627370496"},
         }) {
      GroupOptions options = with_timeout(60s);
      change(options);
      const std::string expected = "usage: process group: " + problem;
      CHECK(describe_failure([&] { ProcessGroup::create({}, options); }) == expected);
      CHECK(describe_failure([&] { ProcessGroup::create_in_process(4, options); }) == expected);
    }
    GroupOptions options = with_timeout(60s);
    options.name = longest;
    CHECK(ProcessGroup::create_in_process(1, options).front().name() == longest);
  }

  TEST_CASE("process group: different calls of ranks are reported and end the group") {
    run_ranks(3, [](ProcessGroup& group) {
      std::vector<float> values(100);
      const std::size_t count = group.rank() == 2 ? 99 : 100;
      const std::string expected =
          "usage: collective 0 of group \"default\": rank 0 called all_reduce(100 x float32, sum) "
          "but rank 2 called all_reduce(99 x float32, sum)";
      CHECK(describe_failure([&] { group.all_reduce(as_buffer(values.data(), count)).wait(); }) ==
            expected);
      CHECK(describe_failure([&] { group.barrier().wait(); }) == expected);
    });
  }

  TEST_CASE("process group: messages match by sender and tag and order") {
    run_ranks(2, [](ProcessGroup& group) {
      const int other = 1 - group.rank();
      constexpr int kMessages = 20;
      std::vector<std::int32_t> sent(2 * kMessages);
      for (int i = 0; i < 2 * kMessages; ++i) {
        sent[i] = 100 * group.rank() + i;
        group.send(as_buffer(&sent[i], 1), other, i % 2).wait();
        if (i % 2 == 0) continue;
        std::int32_t odd = 0;
        std::int32_t even = 0;
        group.recv(as_buffer(&odd, 1), other, 1).wait();
        group.recv(as_buffer(&even, 1), other, 0).wait();
        CHECK(odd == 100 * other + i);
        CHECK(even == 100 * other + i - 1);
      }
    });
  }

  TEST_CASE("process group: a send uses the room that another receiver has left") {
    GroupOptions options = with_timeout(60s);
    options.arena_bytes = std::size_t{8} << 20;
    for (int round = 0; round < 10; ++round) {
      std::latch has_called(1);
      run_ranks(
          3,
          [&](ProcessGroup& group) {
            std::vector<std::uint8_t> large(3 << 20, 1);
            const Buffer message = as_buffer(large.data(), large.size());
            // Room for two messages. Rank 1 receives its one after rank 2 has received both of its.
            if (group.rank() == 0) {
              group.send(message, 1).wait();
              group.send(message, 2).wait();
              const Work last = group.send(message, 2);
              has_called.count_down();
              last.wait();
            } else if (group.rank() == 2) {
              has_called.wait();
              for (int i = 0; i < 2; ++i) group.recv(message, 0).wait();
              group.send(message, 1).wait();
            } else {
              group.recv(message, 2).wait();
              group.recv(message, 0).wait();
            }
            CHECK(large.back() == 1);
          },
          options);
    }
  }

  TEST_CASE("process group: a rank that cannot start does not make the others wait") {
    /// Prevents the start of further threads.
    struct Exhausting final : Backend {
      DeviceQueue* device_queue() override {
        pthread_attr_t huge;
        ::pthread_attr_init(&huge);
        ::pthread_attr_setstacksize(&huge, std::size_t{1} << 50U);
        ::pthread_setattr_default_np(&huge);
        ::pthread_attr_destroy(&huge);
        return nullptr;
      }
      void enter(Deadline) override {}
      void leave() noexcept override {}
      void run(const Operation&, Deadline) override {}
      std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
      std::string stall_reason() const override { return {}; }
      void abort(const std::string&) noexcept override {}
    };
    pthread_attr_t before;
    ::pthread_getattr_default_np(&before);
    GroupOptions options = with_timeout(60s);
    options.join_timeout = 3600s;
    auto backends = create_in_process_backends(3, options);
    backends[2] = std::make_unique<Exhausting>();
    const auto text =
        describe_failure([&] { create_in_process_groups(std::move(backends), options); });
    ::pthread_setattr_default_np(&before);
    ::pthread_attr_destroy(&before);
    CHECK_MESSAGE(text.find("system: process group \"default\": starting a thread: ") == 0, text);
  }

  TEST_CASE("process group: large messages reuse the sender's memory once received") {
    run_ranks(
        2,
        [](ProcessGroup& group) {
          std::vector<std::uint8_t> large(3 << 20);
          for (std::uint8_t i = 0; i < 10; ++i) {
            if (group.rank() == 0) std::fill(large.begin(), large.end(), i);
            if (group.rank() == 0) group.send(as_buffer(large.data(), large.size()), 1).wait();
            if (group.rank() == 1) group.recv(as_buffer(large.data(), large.size()), 0).wait();
            CHECK(std::all_of(large.begin(), large.end(), [&](auto byte) { return byte == i; }));
          }
        },
        with_timeout(60s));
  }

  TEST_CASE("process group: several default groups fit into a limited address space") {
    const LimitedAddressSpace limit(std::size_t{2} << 30);
    std::vector<std::vector<ProcessGroup>> groups;
    groups.reserve(3);
    for (int i = 0; i < 3; ++i) groups.push_back(ProcessGroup::create_in_process(2));
    GroupOptions options;
    options.arena_bytes = std::size_t{2} << 30;
    CHECK(describe_failure([&] {
            ProcessGroup::create_in_process(2, options);
          }).find("raise the limit (ulimit -v) or lower GroupOptions::arena_bytes") !=
          std::string::npos);
  }

  TEST_CASE("process group: a too large message is rejected with the option to raise the limit") {
    run_ranks(
        2,
        [](ProcessGroup& group) {
          std::vector<std::uint8_t> large(9 << 20);
          if (group.rank() != 0) return;
          CHECK(describe_failure([&] {
                  group.send(as_buffer(large.data(), large.size()), 1).wait();
                }).find("arena_bytes") != std::string::npos);
          CHECK(describe_failure([&] { group.allocate(large.size()); }).find("arena_bytes") !=
                std::string::npos);
        },
        with_timeout(60s));
  }

  TEST_CASE("process group: a receiver buffers at most 1024 messages with other tags") {
    run_ranks(2, [](ProcessGroup& group) {
      std::int32_t value = 0;
      if (group.rank() == 1) {
        CHECK(describe_failure([&] {
                group.recv(as_buffer(&value, 1), 0, 7).wait();
              }).find("1024 messages with other tags are pending") != std::string::npos);
      } else {
        const std::string failure = describe_failure([&] {
          while (true) group.send(as_buffer(&value, 1), 1, 0).wait();
        });
        CHECK(failure.find("1024 messages") != std::string::npos);
      }
    });
  }

  TEST_CASE("process group: a call blocks while the queue of pending works is full") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
    for (std::size_t i = 0; i < kQueuedWorksMax; ++i) (void)groups[0].barrier();
    auto last = std::async(std::launch::async, [&] { return groups[0].barrier(); });
    CHECK(last.wait_for(50ms) == std::future_status::timeout);
    for (std::size_t i = 0; i < kQueuedWorksMax + 1; ++i) groups[1].barrier().wait();
    last.get().wait();
  }

  TEST_CASE("process group: a caller is blocked for at most the collective timeout") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(500ms));
    for (std::size_t i = 0; i < kQueuedWorksMax; ++i) (void)groups[0].barrier();
    // The timeout of the caller, or of the collective that waits for rank 1.
    CHECK(describe_failure([&] { groups[0].barrier().wait(); }).find("timeout: ") == 0);
  }

  TEST_CASE("process group: a short wait does not block for a pending collective") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
    const Work work = groups[0].barrier();
    const Work behind = groups[0].barrier();
    const std::string reason = ": rank(s) 1 had not entered it";
    const auto message = error_containing(reason, work);
    CHECK_MESSAGE(
        message.find(
            "timeout: barrier(), collective 0 of group \"default\" had not ended after ") == 0,
        message);
    CHECK(message.find(reason) != std::string::npos);
    const auto message_behind = error_containing(reason, behind);
    CHECK_MESSAGE(message_behind.find("; before it comes barrier(), collective 0 of group "
                                      "\"default\"" +
                                      reason) != std::string::npos,
                  message_behind);
    CHECK_FALSE(work.is_done());
    for (int i = 0; i < 2; ++i) groups[1].barrier().wait();
    work.wait();
    behind.wait();
    CHECK(work.is_done());
  }

  TEST_CASE("process group: a wait close to its deadline runs no other work") {
    std::mutex mutex;
    std::multiset<std::thread::id> runners;
    auto options = with_timeout(60s);
    options.on_collective = [&](const CollectiveRecord&) {
      const std::lock_guard lock(mutex);
      runners.insert(std::this_thread::get_id());
    };
    auto groups = ProcessGroup::create_in_process(2, options);
    std::vector<Work> works;
    works.reserve(3);
    for (int i = 0; i < 3; ++i) works.push_back(groups[0].barrier());
    const auto deadline = Deadline::after(60s + 30ms);
    std::thread waiter([&] { works.back().wait(deadline); });
    const auto id = waiter.get_id();
    while (deadline.remaining() >= 60s) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) groups[1].barrier().wait();
    waiter.join();
    groups.clear();
    CHECK(runners.count(id) <= 1);  // the first one, which began with enough time
  }

  TEST_CASE("process group: a collective completes even if its Work is never waited for") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
    float values[] = {1, 2};
    (void)groups[0].all_reduce(as_buffer(&values[0], 1));
    groups[1].all_reduce(as_buffer(&values[1], 1)).wait();
    groups.clear();  // waits for works that have begun
    CHECK(values[0] == 3);
    CHECK(values[1] == 3);
  }

  TEST_CASE("process group: an abort ends pending works on all ranks permanently") {
    auto groups = ProcessGroup::create_in_process(3, with_timeout(60s));
    const Work first = groups[0].barrier();
    const Work second = groups[1].barrier();
    groups[0].abort("enough");
    const std::string own = "closed: process group \"default\" was aborted: enough";
    const std::string others =
        "peer 0: process group \"default\" was aborted by rank 0: enough (during barrier(), "
        "collective 0 of group \"default\")";
    CHECK(describe_failure([&] { first.wait(); }) == own);
    CHECK(describe_failure([&] { second.wait(); }) == others);
    CHECK(describe_failure([&] { groups[0].barrier().wait(); }) == own);
    CHECK(describe_failure([&] { groups[2].barrier().wait(); }) == others);
  }

  TEST_CASE("process group: other ranks do not access the memory of a failed call") {
    // Rank 0 aborts at a random moment of a reduction; from then on its buffer is its own again.
    constexpr std::size_t kElements = 1 << 20;
    for (int attempt = 0; attempt < 40; ++attempt) {
      auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
      std::vector<float> theirs(kElements, 1);
      std::thread other([&] {
        describe_failure([&] { groups[1].all_reduce(as_buffer(theirs.data(), kElements)).wait(); });
      });
      std::vector<float> own(kElements, 1);
      const Work work = groups[0].all_reduce(as_buffer(own.data(), kElements));
      std::thread aborter([&, attempt] {
        const auto pause = Deadline::after(attempt * 20us);
        while (!pause.passed()) std::this_thread::yield();
        groups[0].abort("enough");
      });
      const bool has_failed = describe_failure([&] { work.wait(); }) != "no failure";
      std::fill(own.begin(), own.end(), 5.0F);
      other.join();
      aborter.join();
      if (has_failed) CHECK(std::all_of(own.begin(), own.end(), [](float v) { return v == 5; }));
    }
  }

  TEST_CASE("process group: allocated memory is zeroed and aligned and outlives the group") {
    std::shared_ptr<void> kept;
    {
      auto groups = ProcessGroup::create_in_process(1, with_timeout(60s));
      const void* first_place = nullptr;
      for (int i = 0; i < 3; ++i) {
        kept = nullptr;
        kept = groups[0].allocate(5 << 20);
        auto* bytes = static_cast<std::uint8_t*>(kept.get());
        CHECK(std::all_of(bytes, bytes + (5 << 20), [](auto byte) { return byte == 0; }));
        CHECK(reinterpret_cast<std::uintptr_t>(bytes) % 64 == 0);
        if (i > 0) CHECK(bytes == first_place);
        first_place = bytes;
        std::fill(bytes, bytes + (5 << 20), std::uint8_t{1});
      }
      const auto empty = groups[0].allocate(0);
      CHECK(empty != nullptr);
    }
    static_cast<std::uint8_t*>(kept.get())[0] = 2;
  }

  TEST_CASE("process group: each collective is recorded with times in call order") {
    std::vector<CollectiveRecord> records;
    auto options = with_timeout(60s);
    options.on_collective = [&](const CollectiveRecord& record) { records.push_back(record); };
    {
      auto groups = ProcessGroup::create_in_process(1, options);
      std::vector<float> values(10);
      (void)groups[0].all_reduce(as_buffer(values.data(), 10));
      (void)groups[0].barrier();
      groups[0].broadcast(as_buffer(values.data(), 5), 0).wait();
    }
    REQUIRE(records.size() == 3);
    CHECK(records[0].name == "all_reduce");
    CHECK(records[0].bytes == 40);
    CHECK(records[1].name == "barrier");
    CHECK(records[2].sequence == 2);
    for (const auto& record : records) {
      CHECK(record.queued <= record.started);
      CHECK(record.started <= record.ended);
    }
  }

  TEST_CASE("process group: a call during another thread's wait ends the group") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
    const std::string expected = " was called while another thread was calling a collective or";
    std::string message_of_other;
    std::thread other(
        [&] { message_of_other = describe_failure([&] { groups[0].barrier().wait(); }); });
    std::string message;
    do {
      message = describe_failure([&] {
        const Work work = groups[0].barrier();
        if (work.is_done()) work.wait();  // the other thread failed first
      });
      std::this_thread::yield();
    } while (message == "no failure");
    other.join();
    CHECK_MESSAGE(message.find("usage: process group \"default\": barrier()" + expected) == 0,
                  message);
    CHECK_MESSAGE(
        message_of_other.find("usage: process group \"default\": barrier()" + expected) == 0,
        message_of_other);
    // The other ranks may have seen the calls in another order.
    const auto message_of_rank_1 = describe_failure([&] {
      while (true) groups[1].barrier().wait();
    });
    CHECK_MESSAGE(message_of_rank_1.find("peer 0: ") == 0, message_of_rank_1);
  }

  TEST_CASE("process group: other threads may call during a wait if the options say so") {
    GroupOptions options = with_timeout(60s);
    options.has_calling_threads = true;
    auto groups = ProcessGroup::create_in_process(2, options);
    std::atomic<bool> is_waiting = false;
    std::thread other([&] {
      const Work work = groups[0].barrier();
      is_waiting = true;
      work.wait();
    });
    while (!is_waiting) std::this_thread::yield();
    const Work second = groups[0].barrier();
    for (int i = 0; i < 2; ++i) groups[1].barrier().wait();
    second.wait();
    other.join();
  }

  TEST_CASE("process group: simultaneous calls of two threads end the group") {
    auto groups = ProcessGroup::create_in_process(2, with_timeout(60s));
    for (std::size_t i = 0; i < kQueuedWorksMax; ++i) (void)groups[0].barrier();
    // Whichever is first blocks within its call.
    const auto call = [&] { return describe_failure([&] { groups[0].barrier().wait(); }); };
    auto other = std::async(std::launch::async, call);
    for (const auto& message : {call(), other.get()})
      CHECK_MESSAGE(message.find("another thread was calling a collective") != std::string::npos,
                    message);
  }

  TEST_CASE("process group: threads can alternate and wait for each other's works") {
    run_ranks(2, [](ProcessGroup& group) {
      Work work;
      for (int i = 0; i < 3; ++i) {
        std::thread([&] { work = group.barrier(); }).join();
        const Work own = group.barrier();
        std::thread([&] { own.wait(); }).join();
        work.wait();
      }
    });
  }

  TEST_CASE("process group: use of a moved-from handle is an error") {
    auto groups = ProcessGroup::create_in_process(1);
    const ProcessGroup group = std::move(groups[0]);
    const std::string expected =
        "usage: process group: this handle was moved from; call the one that it was moved to";
    CHECK(describe_failure([&] { groups[0].barrier().wait(); }) == expected);
    CHECK(describe_failure([&] { groups[0].rank(); }) == expected);
    CHECK(describe_failure([&] { groups[0].abort("unused"); }) == expected);
    CHECK(describe_failure([&] { groups[0].allocate(1); }) == expected);
  }

  TEST_CASE("process group: available_backends() lists the backends") {
    const auto backends = available_backends();
    REQUIRE(backends.size() == 5);
    CHECK(backends[0].name == "nccl");
    CHECK(backends[1].name == "host");
    CHECK(backends[1].unavailable_reason.empty());
    CHECK(backends[2].name == "gloo");
    CHECK(backends[3].name == "openmpi");
    CHECK(backends[4].name == "mpich");
  }

  TEST_CASE("process group: NCCL is unavailable on a machine without a GPU") {
    if (std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg")) return;
    CHECK(available_backends()[0].unavailable_reason ==
          "there is no NVIDIA GPU here (no /dev/nvidiactl)");
  }

  TEST_CASE("process group: a missing module is reported with its file name") {
    const auto reason = module_unavailable_reason("nothing");
    CAPTURE(reason);
    CHECK(reason.rfind("its module cannot be loaded: libddprun_nothing.so: ", 0) == 0);
    CHECK(reason.find("(looked in " DDPRUN_BIN_DIR ", ") != std::string::npos);
  }
}

}  // namespace process_group_test
