#include <ddprun/error.hpp>
#include <ddprun/torch/as_buffer.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

namespace as_buffer_test {

using ddprun::DataType;
using ddprun::torch::as_buffer;
using ddprun::torch::as_copied_buffer;

TEST_SUITE("tensors as buffers") {
  TEST_CASE("as_buffer: a tensor's memory is used in any memory format") {
    const auto tensor = torch::ones({2, 3, 4, 5}, torch::kFloat64);
    for (const auto& laid_out : {tensor, tensor.to(torch::MemoryFormat::ChannelsLast)}) {
      const auto buffer = as_buffer(laid_out);
      CHECK(buffer.data == laid_out.data_ptr());
      CHECK(buffer.elements == 120);
      CHECK(buffer.type == DataType::float64);
    }
  }

  TEST_CASE("as_buffer: types that collectives cannot reduce are copied as bytes") {
    const auto tensor = torch::zeros({3}, torch::kComplexFloat);
    CHECK_THROWS_WITH_AS(
        as_buffer(tensor, "parameter \"p\""),
        "parameter \"p\" is of type ComplexFloat, which collectives cannot combine", ddprun::Error);
    const auto buffer = as_copied_buffer(tensor);
    CHECK(buffer.type == DataType::uint8);
    CHECK(buffer.elements == 24);
  }

  TEST_CASE("as_buffer: a tensor with gaps or shared elements is rejected") {
    const auto tensor = torch::zeros({4, 4});
    CHECK_THROWS_WITH_AS(as_buffer(tensor.slice(1, 0, 2), "x"),
                         "x has gaps or elements that share memory: make it contiguous() first",
                         ddprun::Error);
    CHECK_THROWS_AS(as_buffer(torch::zeros({1}).expand({4})), ddprun::Error);
    CHECK_THROWS_WITH_AS(as_buffer(tensor.to_sparse(), "x"),
                         "x is sparse: collectives need dense memory", ddprun::Error);
    CHECK_THROWS_WITH_AS(as_buffer(torch::Tensor(), "x"), "x is undefined", ddprun::Error);
    CHECK_THROWS_WITH_AS(as_buffer(torch::empty({2}, torch::kMeta), "x"),
                         "x is on device meta: collectives reach the CPU and CUDA", ddprun::Error);
  }
}

}  // namespace as_buffer_test
