// Collectives of buffers on CUDA devices, with the fake devices and NCCL.
#include "tests/support/device_ranks.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nccl_backend_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("nccl backend") {
  TEST_CASE("nccl backend: random calls on device and host buffers match serial results") {
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const CleanDevices clean;
      run_ranks(device_ranks(ranks), [](ProcessGroup& group) {
        RandomCalls calls(group, 7, {}, Arithmetic::in_any_order);
        calls.use_device(
            {kDevice,
             [](std::size_t bytes) { return std::shared_ptr<void>(std::malloc(bytes), std::free); },
             [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }});
        CHECK(calls.run(300) == "ok");
      });
    }
  }

  TEST_CASE("nccl backend: a missing NCCL is an error only with several ranks") {
    static const nccl::Libraries libraries{
        []() -> const nccl::NcclCalls& { throw Error(Errc::nccl, "NCCL cannot be loaded"); },
        &fake_cuda(), &emulated_kernels()};
    static const nccl::DeviceTable table = nccl::make_device_table(libraries);
    const CleanDevices clean;
    for (const int ranks : {1, 2}) {
      run_ranks(device_ranks(ranks, {}, table), [&](ProcessGroup& group) {
        std::vector<float> values(10, 1);
        const auto call = [&] { group.all_reduce(on_device(values), ReduceOp::average).wait(); };
        if (ranks > 1) {
          CHECK_THROWS_WITH_AS(call(), doctest::Contains("NCCL cannot be loaded"), Error);
          return;
        }
        call();
        CHECK(values[9] == 1);
      });
    }
  }

  TEST_CASE("nccl backend: a group that uses only host buffers creates no communicator") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<float> values(10, 1);
      group.all_reduce(as_buffer(values.data(), values.size())).wait();
      CHECK(values[0] == 2);
      CHECK(fake_communicators() == 0);
      CHECK(fake_cuda_objects() == 0);
    });
  }

  TEST_CASE("nccl backend: a collective starts after preceding work of the caller's stream") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const Stream stream;
      group.set_stream(stream.get());
      std::vector<float> values(1000);
      std::promise<void> may_go_on;
      launch_on(stream.get(), [&, held = may_go_on.get_future().share()] {
        held.wait();
        std::iota(values.begin(), values.end(), 0.0F);
      });
      const Work work = group.all_reduce(on_device(values));
      CHECK_FALSE(work.is_done());
      may_go_on.set_value();
      work.wait();
      CHECK(values[999] == 1998);
    });
  }

  TEST_CASE("nccl backend: works run in call order and a stream can wait for them") {
    const CleanDevices clean;
    std::promise<void> may_go_on;
    const auto held = may_go_on.get_future().share();
    std::latch have_called(2);
    run_ranks(device_ranks(2), [&](ProcessGroup& group) {
      const Stream stream;
      group.set_stream(stream.get());
      std::vector<std::vector<float>> values(5, std::vector<float>(100, 1));
      std::vector<Work> works;
      launch_on(stream.get(), [held] { held.wait(); });
      for (auto& one : values) {
        works.push_back(group.all_reduce(on_device(one)));
        // It has not begun, and no thread waits for its end.
        works.back().hold(stream.get());
        CHECK_FALSE(works.back().is_done());
      }
      std::promise<float> seen;
      launch_on(stream.get(), [&] { seen.set_value(values[4][99]); });
      have_called.arrive_and_wait();
      if (group.rank() == 0) may_go_on.set_value();
      CHECK(seen.get_future().get() == 2);
      for (const auto& work : works) work.wait();
    });
  }

  TEST_CASE("nccl backend: a thread's calls on several groups are launched in call order") {
    const CleanDevices clean;
    constexpr int kRanks = 3;
    auto first = device_ranks(kRanks);
    auto second = device_ranks(kRanks);
    std::map<int, std::vector<int>> launches;
    std::mutex mutex;
    run_ranks(device_ranks(kRanks), [&](ProcessGroup& group) {
      const int rank = group.rank();
      ProcessGroup one = std::move(first[static_cast<std::size_t>(rank)]);
      ProcessGroup other = std::move(second[static_cast<std::size_t>(rank)]);
      const auto before = fake_launches(rank).size();
      std::vector<std::vector<float>> values(6, std::vector<float>(10, 1));
      one.all_reduce(on_device(values[0])).wait();
      std::vector<Work> works;
      // The first call of a group connects its ranks, which takes longer than a launch.
      works.push_back(other.all_reduce(on_device(values[1])));
      works.push_back(one.all_reduce(on_device(values[2])));
      works.push_back(group.all_reduce(on_device(values[3])));
      works.push_back(group.all_reduce(on_device(values[4])));
      works.push_back(one.all_reduce(on_device(values[5])));
      for (const auto& work : works) work.wait();
      auto own = fake_launches(rank);
      own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(before));
      const std::lock_guard lock(mutex);
      launches[rank] = own;
    });
    for (const auto& entry : launches) {
      CAPTURE(entry.first);
      const auto& own = entry.second;
      // Unique ids are numbered in the order of the first calls.
      const int base = own.front();
      CHECK(own == std::vector<int>{base, base + 1, base, base + 2, base + 2, base});
    }
  }

  TEST_CASE("nccl backend: a work fails if the call before it is not launched in time") {
    const CleanDevices clean;
    auto slow = device_ranks(2, {.name = "slow"});
    GroupOptions options;
    options.collective_timeout = std::chrono::milliseconds(50);
    nccl_faults().hangs_in_id = true;
    std::latch have_failed(2);
    run_ranks(device_ranks(2, options), [&](ProcessGroup& group) {
      ProcessGroup late = std::move(slow[static_cast<std::size_t>(group.rank())]);
      std::vector<float> values(10, 1);
      std::vector<float> others(10, 1);
      const Work before = late.all_reduce(on_device(others));
      CHECK_THROWS_WITH_AS(group.all_reduce(on_device(values)).wait(),
                           doctest::Contains("of group \"slow\""), Error);
      have_failed.arrive_and_wait();
      nccl_faults().take_back();
      before.wait();
      CHECK(others[9] == 2);
    });
  }

  TEST_CASE("nccl backend: a stream can wait for a host work") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      const Stream stream;
      std::vector<float> values(100, 1);
      group.all_reduce(as_buffer(values.data(), values.size())).hold(stream.get());
      CHECK(values[99] == 2);
    });
  }

  TEST_CASE("nccl backend: device memory is zeroed and outlives its group") {
    const CleanDevices clean;
    std::shared_ptr<void> memory;
    run_ranks(device_ranks(1), [&](ProcessGroup& group) {
      memory = group.allocate(100 * sizeof(float), kDevice);
      auto* const values = static_cast<float*>(memory.get());
      CHECK(std::all_of(values, values + 100, [](float value) { return value == 0; }));
      group.all_reduce({values, 100, DataType::float32, kDevice}).wait();
    });
    CHECK(fake_cuda_objects() == 1);
    memory.reset();
  }

  TEST_CASE("nccl backend: memory on another device is rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(1), [](ProcessGroup& group) {
      CHECK_THROWS_WITH_AS(
          group.allocate(1, {.kind = Device::Kind::cuda, .index = 0}),
          "process group \"default\": memory on CUDA device 0; this rank uses device 1", Error);
      CHECK(group.allocate(0, kDevice) != nullptr);
    });
  }

  TEST_CASE("nccl backend: a thread keeps its current device if it has one") {
    const CleanDevices clean;
    const cuda::CudaCalls& calls = fake_cuda();
    const auto after_work_on = [&calls](int device) {
      { const cuda::OnDevice there(calls, device); }
      int now = -1;
      calls.get_device(&now);
      return now;
    };
    calls.set_device(1);
    CHECK(after_work_on(0) == 1);
    calls.set_device(0);
    CHECK(after_work_on(1) == 1);
    calls.set_device(0);
  }

  TEST_CASE("nccl backend: any thread can destroy the group, whatever its current device") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<float> values(10, 1);
      group.all_reduce(on_device(values), ReduceOp::sum).wait();
      std::thread([last = std::move(group)] {}).join();
    });
  }

  TEST_CASE("nccl backend: a host-only backend cannot allocate device memory") {
    run_ranks(1, [](ProcessGroup& group) {
      CHECK_THROWS_WITH_AS(group.allocate(1, kDevice),
                           "process group \"default\": backend in_process does not support device "
                           "memory; use nccl",
                           Error);
    });
  }

  TEST_CASE("nccl backend: a buffer on another rank's device is rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<float> values(10);
      const Device other{.kind = Device::Kind::cuda, .index = 0};
      CHECK_THROWS_WITH_AS(group.all_reduce(on_device(values, other)).wait(),
                           "all_reduce: input is on CUDA device 0; this rank uses device 1 "
                           "(index LOCAL_RANK in CUDA_VISIBLE_DEVICES)",
                           Error);
    });
  }

  TEST_CASE("nccl backend: input and output on different devices are rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(1), [](ProcessGroup& group) {
      std::vector<float> input(10);
      std::vector<float> output(10);
      CHECK_THROWS_WITH_AS(
          group.all_gather(on_device(input), as_buffer(output.data(), output.size())).wait(),
          "all_gather: input and output are not on the same device", Error);
    });
  }

  TEST_CASE("nccl backend: averages that NCCL would compute imprecisely are rejected") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<std::int32_t> values(10);
      CHECK_THROWS_WITH_AS(group.all_reduce(on_device(values), ReduceOp::average).wait(),
                           "all_reduce: average of int32 on a device: the sum may overflow; use "
                           "another type",
                           Error);
    });
  }

  TEST_CASE("nccl backend: a host-only backend rejects device buffers") {
    run_ranks(1, [](ProcessGroup& group) {
      std::vector<float> values(10);
      CHECK_THROWS_WITH_AS(
          group.all_reduce(on_device(values)).wait(),
          "all_reduce: input is on CUDA device 1; this backend supports only host memory", Error);
    });
  }
}

}  // namespace nccl_backend_test
