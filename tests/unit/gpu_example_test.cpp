// The example of docs/gpus.md, compiled and run on the fake devices; also checks that the document
// shows it.
#include "tests/support/device_ranks.hpp"
#include "tests/support/document.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gpu_example_test {

using ddprun::Buffer;
using ddprun::DataType;
using ddprun::Device;
using ddprun::GradientReducer;
using ddprun::ProcessGroup;

namespace {

/// Kernels of a model; each function launches them on the given stream.
struct Kernels {
  std::function<void(Buffer gradient, cudaStream_t)> backward;  ///< adds to the gradient
  std::function<void(Buffer weights, Buffer gradient, cudaStream_t)> update;
};

void train(ProcessGroup group, int local_rank, cudaStream_t stream, const Kernels& kernels) {
  constexpr std::size_t kWeights = 1000;
  const Device device{.kind = Device::Kind::cuda, .index = local_rank};
  const auto memory = group.allocate(kWeights * sizeof(float), device);  // or cudaMalloc()
  const Buffer weights{memory.get(), kWeights, DataType::float32, device};
  group.set_stream(stream);  // zeroing and broadcasts of the reducer run there
  GradientReducer reducer(group, {{"weights", weights}});
  for (int step = 0; step < 10; ++step) {
    reducer.zero_gradients();
    reducer.begin();
    kernels.backward(reducer.gradient(0), stream);
    reducer.ready(0, stream);  // its bucket can now be reduced
    reducer.finish(stream);    // later work on the stream waits for it, not the host
    kernels.update(weights, reducer.gradient(0), stream);
  }
  reducer.synchronise();  // before a checkpoint
}

}  // namespace

TEST_SUITE("GPU example") {
  TEST_CASE("GPU example: all ranks get the mean of their gradients") {
    const ddprun::test::CleanDevices clean;
    ddprun::test::run_ranks(ddprun::test::device_ranks(2), [](ProcessGroup& group) {
      const ddprun::test::Stream stream;
      const auto rank = static_cast<float>(group.rank());
      const auto floats = [](const Buffer& buffer) { return static_cast<float*>(buffer.data); };
      std::vector<float> last(1);
      const Kernels kernels{.backward =
                                [=](Buffer gradient, cudaStream_t on) {
                                  ddprun::test::launch_on(on, [=] {
                                    for (std::size_t i = 0; i < gradient.elements; ++i)
                                      floats(gradient)[i] += 2 * rank + 1;
                                  });
                                },
                            .update =
                                [=, &last](Buffer weights, Buffer gradient, cudaStream_t on) {
                                  ddprun::test::launch_on(on, [=, &last] {
                                    for (std::size_t i = 0; i < weights.elements; ++i)
                                      floats(weights)[i] -= floats(gradient)[i];
                                    last[0] = floats(weights)[weights.elements - 1];
                                  });
                                }};
      train(group, ddprun::test::kDevice.index, stream.get(), kernels);
      ddprun::test::fake_cuda().stream_synchronize(stream.get());
      CHECK(last[0] == -20);
    });
  }

  TEST_CASE("GPU example: the documentation shows the compiled example") {
    const auto here = ddprun::test::code_compiled_in("tests/unit/gpu_example_test.cpp");
    CHECK_FALSE(here.empty());
    CHECK(here == ddprun::test::code_shown_in("docs/gpus.md"));
  }
}

}  // namespace gpu_example_test
