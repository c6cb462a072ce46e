// Gradients of half types accumulated in float32 on a fake device.
#include "tests/support/device_ranks.hpp"
#include "tests/support/rank_threads.hpp"
#include "worker_runtime/collectives/half.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <future>
#include <vector>

namespace device_accumulation_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

struct Ours {};
using Halves = collectives::Half<Ours>;

std::uint16_t half_of(DataType type, float value) {
  return type == DataType::float16 ? Halves::to_float16(value) : Halves::to_bfloat16(value);
}

/// Result of a kernel of the backward pass.
void fill_on(const test::Stream& stream, std::vector<std::uint16_t>& memory, std::uint16_t value) {
  launch_on(stream.get(), [&memory, value] { memory.assign(memory.size(), value); });
}

void wait_for(const test::Stream& stream) {
  std::promise<void> done;
  launch_on(stream.get(), [&done] { done.set_value(); });
  done.get_future().wait();
}

/// Two parameters with own gradients of a half type.
struct Halved {
  explicit Halved(DataType type) {
    for (std::size_t p = 0; p < 2; ++p) {
      Parameter parameter{.name = "p" + std::to_string(p)};
      parameter.values = {values[p].data(), values[p].size(), type, kDevice};
      parameter.gradient = {own[p].data(), own[p].size(), type, kDevice};
      parameters.push_back(parameter);
    }
  }
  std::vector<std::uint16_t> values[2] = {std::vector<std::uint16_t>(1500),
                                          std::vector<std::uint16_t>(7)};
  std::vector<std::uint16_t> own[2] = {values[0], values[1]};
  std::vector<Parameter> parameters;
};

/// Adds halves at an offset of `shift` elements to ones, and checks the neighbours, too.
template <typename Element>
void check_added(const std::vector<Element>& from, DataType type, std::size_t shift,
                 std::size_t elements) {
  const test::Stream stream;
  std::vector<float> to(elements + 5, 1);
  const std::vector<cuda::Piece> pieces = {{from.data() + shift, to.data() + 2, elements}};
  CHECK(emulated_kernels().add(pieces, type, stream.get()) == cudaSuccess);
  wait_for(stream);
  CHECK(to[1] == 1);
  CHECK(to[elements + 2] == 1);
  std::size_t right = 0;
  for (std::size_t i = 0; i < elements; ++i) right += to[i + 2] == 1.5F ? 1 : 0;
  CHECK(right == elements);
}

}  // namespace

TEST_SUITE("accumulation on a device") {
  TEST_CASE("device accumulation: half gradients accumulate in float32 over steps and ranks") {
    // In float16, 2048 + 1 is 2048; in bfloat16 256 + 1 is 256.
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      for (const bool static_graph : {false, true}) {
        CAPTURE(static_graph);
        const CleanDevices clean;
        const float large = type == DataType::float16 ? 2048 : 256;
        run_ranks(device_ranks(2), [&](ProcessGroup& group) {
          Halved model(type);
          const test::Stream stream;
          group.set_stream(stream.get());
          GradientReducer reducer(
              group, model.parameters, {},
              {.op = ReduceOp::sum, .static_graph = static_graph, .accumulate_in_float32 = true});
          CHECK(reducer.gradient(0).type == DataType::float32);
          for (int step = 0; step < 3; ++step) {
            reducer.zero_gradients();
            for (int pass = 0; pass < 4; ++pass) {
              reducer.begin(pass == 3);
              for (std::size_t p = 2; p-- > 0;) {
                fill_on(stream, model.own[p], half_of(type, pass == 0 ? large : 1));
                reducer.ready(p, stream.get());
              }
              reducer.finish(stream.get());
            }
            wait_for(stream);
            for (std::size_t p = 0; p < 2; ++p) {
              const auto* sums = static_cast<const float*>(reducer.gradient(p).data);
              CHECK(sums[0] == 2 * (large + 3));
              CHECK(sums[model.own[p].size() - 1] == 2 * (large + 3));
            }
          }
          reducer.synchronise();
        });
      }
    }
  }

  TEST_CASE("device accumulation: gradients from different streams are all included") {
    const CleanDevices clean;
    run_ranks(device_ranks(2), [](ProcessGroup& group) {
      Halved model(DataType::bfloat16);
      const test::Stream stream;
      const test::Stream other;
      group.set_stream(stream.get());
      GradientReducer reducer(group, model.parameters, {}, {.accumulate_in_float32 = true});
      for (int step = 0; step < 3; ++step) {
        reducer.zero_gradients();
        wait_for(stream);
        reducer.begin();
        for (std::size_t p = 2; p-- > 0;) {
          const test::Stream& own = p == 0 ? stream : other;
          fill_on(own, model.own[p], half_of(DataType::bfloat16, static_cast<float>(step + 1)));
          reducer.ready(p, own.get());
        }
        reducer.finish(stream.get());
        wait_for(stream);
        for (std::size_t p = 0; p < 2; ++p)
          CHECK(static_cast<const float*>(reducer.gradient(p).data)[6] ==
                static_cast<float>(step + 1));
      }
      reducer.synchronise();
    });
  }

  TEST_CASE("device accumulation: buffers of any alignment and length are added") {
    const CleanDevices clean;
    for (const std::size_t shift : {0U, 1U, 3U, 8U}) {
      for (const std::size_t elements : {1U, 7U, 64U, 4099U, 9000U}) {
        check_added(std::vector<std::uint16_t>(elements + shift, half_of(DataType::float16, 0.5F)),
                    DataType::float16, shift, elements);
        check_added(std::vector<float>(elements + shift, 0.5F), DataType::float32, shift, elements);
      }
    }
    const test::Stream stream;
    CHECK(emulated_kernels().add({}, DataType::float64, stream.get()) == cudaErrorInvalidValue);
  }
}

}  // namespace device_accumulation_test
