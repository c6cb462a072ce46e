// Invalid modules and input of DataParallel.
#include "tests/libtorch/replicas.hpp"
#include "tests/support/failure_text.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <string>

namespace data_parallel_refusals_test {

using ddprun::test::describe_failure;
using ddprun::test::make_net;
using ddprun::test::make_rows;
using ddprun::test::mean_loss;
using ddprun::test::replicas;
using ddprun::torch::DataParallel;
using ddprun::torch::DataParallelOptions;
using Batch = ddprun::test::RowBatch;
using Net = ddprun::test::NormedNet;

TEST_SUITE("data parallel refusals") {
  TEST_CASE("data parallel: a module with a layer added after the replicas is rejected") {
    torch::nn::Sequential net(torch::nn::Linear(2, 2));
    DataParallel<torch::nn::Sequential> parallel(net, replicas(2));
    net->push_back(torch::nn::Linear(2, 2));
    const auto input = torch::ones({4, 2});
    for (const auto& message : {describe_failure([&] { parallel.forward(input); }),
                                describe_failure([&] { parallel.train(input, input, mean_loss); })})
      CHECK(message.find("the module has got or lost parameters or buffers") != std::string::npos);
  }

  TEST_CASE("data parallel: replicas that share a parameter are rejected") {
    const Net net;
    CHECK(describe_failure([&] {
            DataParallel<Net>(net, replicas(2), [&] { return net; });
          }).find("two replicas share a parameter or buffer") != std::string::npos);
  }

  TEST_CASE("data parallel: a copy with different parameter sharing is rejected") {
    struct PairImpl : torch::nn::Module {
      explicit PairImpl(bool is_tied) {
        const torch::nn::Linear layer(6, 6);
        register_module("first", layer);
        register_module("second", is_tied ? layer : torch::nn::Linear(6, 6));
      }
      torch::Tensor forward(const torch::Tensor& input) { return input; }
    };
    TORCH_MODULE(Pair);
    CHECK(describe_failure([&] {
            DataParallel<Pair>(Pair(true), replicas(2), [] { return Pair(false); });
          }).find("parameters that are one in the module are not in a replica") !=
          std::string::npos);
  }

  TEST_CASE("data parallel: invalid input is rejected and a replica's exception thrown") {
    const Batch batch = make_rows(4);
    CHECK(describe_failure([] { DataParallel<Net>(make_net(), {}); }) ==
          "usage: DataParallel: there are no devices");
    CHECK(describe_failure([] { DataParallel<Net>(Net(nullptr), replicas(1)); }) ==
          "usage: DataParallel: a module holder is empty");
    CHECK(describe_failure([] {
            DataParallel<Net>(make_net(), replicas(2), [] { return Net(nullptr); });
          }) == "usage: DataParallel: a module holder is empty");
    const at::Device far_device(torch::kCUDA, 100);
    DataParallelOptions output_far = replicas(1);
    output_far.output_device = far_device;
    for (const auto& options : {DataParallelOptions{.devices = {far_device}}, output_far}) {
      CHECK(describe_failure([&] {
              DataParallel<Net>(make_net(), options);
            }).starts_with("usage: DataParallel: device cuda:100 is not there: LibTorch has "));
    }
    DataParallel<Net> parallel(make_net(), replicas(2));
    CHECK(describe_failure([&] { parallel.forward(torch::Tensor()); }) ==
          "usage: DataParallel: the input has no rows");
    CHECK(describe_failure([&] { parallel.train(batch.input, batch.target[0], mean_loss); }) ==
          "usage: DataParallel: the input has 4 rows, the target 3");
    const auto out_of_luck = [](const torch::Tensor& output,
                                const torch::Tensor& target) -> torch::Tensor {
      if (output.size(0) == 1) throw ddprun::Error(ddprun::Errc::system, "out of luck");
      return mean_loss(output, target);
    };
    const Batch three = make_rows(3);
    CHECK(describe_failure([&] { parallel.train(three.input, three.target, out_of_luck); }) ==
          "system: out of luck");
  }
}

}  // namespace data_parallel_refusals_test
