// Collectives of buffers on CUDA devices, with the fake's devices and NCCL.
#include "tests/support/device_ranks.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

std::string usage_error_of(const Work& work) {
  try {
    work.wait();
  } catch (const Error& error) {
    return error.code() == Errc::usage ? error.what() : "not a usage error";
  }
  return "no error";
}

}  // namespace

TEST_SUITE("nccl backend") {
  TEST_CASE("random calls with buffers on devices and on the host give what one rank alone gets") {
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const CleanDevices clean;
      run_ranks(device_ranks(ranks), [](ProcessGroup& group) {
        RandomCalls calls(group, 7, {}, Arithmetic::in_any_order);
        calls.use_device(kDevice, [](std::size_t bytes) {
          return std::shared_ptr<void>(std::malloc(bytes), std::free);
        });
        CHECK(calls.run(300) == "ok");
      });
    }
  }

  TEST_CASE("no communicator is made for ranks that never use their devices") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<float> values(10, 1);
      group.all_reduce(as_buffer(values.data(), values.size())).wait();
      CHECK(values[0] == 2);
      CHECK(fake_communicators() == 0);
      CHECK(fake_cuda_objects() == 0);
    });
  }

  TEST_CASE("a collective begins when the caller's stream has come to where it was called") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      cudaStream_t stream = nullptr;
      REQUIRE(fake_cuda().stream_create(&stream, cudaStreamNonBlocking) == cudaSuccess);
      group.set_stream(stream);
      std::vector<float> values(1000);
      std::promise<void> may_go_on;
      launch_on(stream, [&, held = may_go_on.get_future().share()] {
        held.wait();
        std::iota(values.begin(), values.end(), 0.0F);
      });
      const Work work = group.all_reduce(on_device(values));
      CHECK_FALSE(work.is_done());
      may_go_on.set_value();
      work.wait();
      CHECK(values[999] == 1998);
      fake_cuda().stream_destroy(stream);
    });
  }

  TEST_CASE("a buffer on a device that is not the rank's is refused") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<float> values(10);
      const Device other{.kind = Device::Kind::cuda, .index = 1};
      CHECK(usage_error_of(group.all_reduce(on_device(values, other))) ==
            "all_reduce: a buffer is on CUDA device 1, and this rank's is device 0 (LOCAL_RANK of "
            "those in CUDA_VISIBLE_DEVICES)");
    });
  }

  TEST_CASE("input and output lie on the same device") {
    const CleanDevices clean;
    run_ranks(device_ranks(1), [](ProcessGroup& group) {
      std::vector<float> input(10);
      std::vector<float> output(10);
      CHECK_THROWS_WITH_AS(
          group.all_gather(on_device(input), as_buffer(output.data(), output.size())),
          "all_gather: input and output are not on the same device", Error);
    });
  }

  TEST_CASE("averages of which NCCL would lose digits are refused") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      std::vector<std::int32_t> values(10);
      CHECK(usage_error_of(group.all_reduce(on_device(values), ReduceOp::average)) ==
            "average of int32: NCCL adds in the type itself, where the sum may not fit; use "
            "another type");
    });
  }

  TEST_CASE("a backend of the host alone refuses buffers on devices") {
    run_ranks(1, [](ProcessGroup& group) {
      std::vector<float> values(10);
      CHECK_THROWS_WITH_AS(
          group.all_reduce(on_device(values)),
          "all_reduce: input is on CUDA device 0, and this backend moves CPU memory only", Error);
    });
  }
}
