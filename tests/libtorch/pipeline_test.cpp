#include "tests/support/failure_text.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/torch.hpp>
#include <ddprun/torch/pipeline.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipeline_test {

using ddprun::PipelineSchedule;
using ddprun::ProcessGroup;
using ddprun::test::describe_failure;
using ddprun::test::run_ranks;
using ddprun::torch::ModuleReducer;
using ddprun::torch::Pipeline;
using ddprun::torch::PipelineBatch;
using ddprun::torch::StageForward;
using torch::nn::Sequential;

namespace {

constexpr std::int64_t kRows = 12;
constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::fill_drain,
                                           PipelineSchedule::one_forward_one_backward};

torch::Tensor mean_loss(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

/// Four layers with the same values each time. Ranks are threads, so LibTorch's generator cannot be
/// used.
std::vector<torch::nn::Linear> make_layers() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(3);
  return {torch::nn::Linear(6, 10), torch::nn::Linear(10, 8), torch::nn::Linear(8, 9),
          torch::nn::Linear(9, 4)};
}

/// Layers of stage `stage` of `stages`.
Sequential make_stage(int stage, int stages) {
  const auto layers = make_layers();
  Sequential model;
  for (int layer = 0; layer < 4; ++layer) {
    if (layer * stages / 4 != stage) continue;
    model->push_back(layers[static_cast<std::size_t>(layer)]);
    model->push_back(torch::nn::Tanh());
  }
  return model;
}

struct Batch {
  torch::Tensor input;
  torch::Tensor target;
};

Batch make_batch(std::uint64_t seed) {
  torch::manual_seed(seed);
  return {torch::randn({kRows, 6}), torch::randn({kRows, 4})};
}

StageForward forward_of(Sequential model) {
  return [model](const torch::Tensor& input) mutable { return model->forward(input); };
}

/// All gradients of a module, concatenated.
torch::Tensor gradients_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : module.parameters()) all.push_back(parameter.grad().flatten());
  return torch::cat(all);
}

/// Gradients of the undivided model for the layers of `stage`, and the loss.
std::pair<std::vector<torch::Tensor>, double> undivided(const std::vector<Batch>& batches,
                                                        int stages) {
  std::vector<Sequential> parts;
  for (int stage = 0; stage < stages; ++stage) parts.push_back(make_stage(stage, stages));
  double loss = 0;
  for (const Batch& batch : batches) {
    torch::Tensor value = batch.input;
    for (auto& part : parts) value = part->forward(value);
    const auto result = mean_loss(value, batch.target) / static_cast<double>(batches.size());
    result.backward();
    loss += result.item<double>();
  }
  std::vector<torch::Tensor> gradients;
  for (const auto& part : parts) gradients.push_back(gradients_of(*part));
  return {gradients, loss};
}

void check_close(const torch::Tensor& a, const torch::Tensor& b) {
  CHECK((a - b).abs().max().item<double>() <= 1e-6 * b.abs().max().item<double>());
}

}  // namespace

TEST_SUITE("pipeline") {
  TEST_CASE("pipeline: gradients of any stages and micro-batches equal those of one module") {
    const Batch batch = make_batch(11);
    for (const int stages : {1, 2, 4}) {
      const auto [expected, expected_loss] = undivided({batch}, stages);
      for (const std::int64_t split : {0, 1, 5, 12, 100}) {
        CAPTURE(stages);
        CAPTURE(split);
        std::vector<torch::Tensor> of_schedule;
        for (const auto schedule : kSchedules) {
          std::vector<torch::Tensor> found(static_cast<std::size_t>(stages));
          run_ranks(stages, [&, whole_loss = expected_loss](ProcessGroup& group) {
            Sequential model = make_stage(group.rank(), stages);
            Pipeline pipeline(forward_of(model), group,
                              {.schedule = schedule, .split_size = split});
            const auto loss = pipeline.train({kRows, batch.input, batch.target}, mean_loss);
            CHECK(loss.defined() == (group.rank() + 1 == stages));
            if (loss.defined()) CHECK(loss.item<double>() == doctest::Approx(whole_loss));
            found[static_cast<std::size_t>(group.rank())] = gradients_of(*model);
          });
          for (std::size_t stage = 0; stage < found.size(); ++stage)
            check_close(found[stage], expected[stage]);
          of_schedule.push_back(torch::cat(found));
        }
        CHECK(of_schedule[0].equal(of_schedule[1]));
      }
    }
  }

  TEST_CASE("pipeline: replicas average their gradients per stage") {
    constexpr int kStages = 2;
    const std::vector<Batch> batches{make_batch(21), make_batch(22)};
    const auto expected = undivided(batches, kStages).first;
    for (const auto schedule : kSchedules) {
      run_ranks(4, [&](ProcessGroup& workers) {
        auto groups = ddprun::make_pipeline_groups(workers, kStages);
        const auto& place = groups.place;
        Sequential model = make_stage(place.stage, kStages);
        ModuleReducer reducer(*model, groups.replicas);
        Pipeline pipeline(forward_of(model), groups.stages, {.schedule = schedule, .split_size = 5},
                          &reducer);
        const Batch& batch = batches[static_cast<std::size_t>(place.replica)];
        for (int step = 0; step < 2; ++step) {
          reducer.zero_grad();
          pipeline.train({kRows, batch.input, batch.target}, mean_loss);
          check_close(gradients_of(*model), expected[static_cast<std::size_t>(place.stage)]);
        }
      });
    }
  }

  TEST_CASE("pipeline: a first stage without parameters forwards its output") {
    const Batch batch = make_batch(71);
    const auto [expected, loss] = undivided({batch}, 2);
    run_ranks(2, [&](ProcessGroup& group) {
      Sequential model = make_stage(group.rank(), 2);
      if (group.rank() == 0) {
        for (auto& parameter : model->parameters()) parameter.set_requires_grad(false);
      }
      Pipeline pipeline(forward_of(model), group, {.split_size = 5});
      pipeline.train({kRows, batch.input, batch.target}, mean_loss);
      if (group.rank() == 1) return check_close(gradients_of(*model), expected[1]);
      for (const auto& parameter : model->parameters()) CHECK(!parameter.grad().defined());
    });
  }

  TEST_CASE("pipeline: unsynchronised batches accumulate") {
    const Batch batch = make_batch(72);
    const auto [expected, loss] = undivided({batch}, 1);
    run_ranks(2, [&](ProcessGroup& group) {
      Sequential model = make_stage(0, 1);
      ModuleReducer reducer(*model, group, ddprun::torch::ddp_defaults());
      const auto alone = ProcessGroup::create_in_process(1).front();
      Pipeline pipeline(forward_of(model), alone, {.split_size = 5}, &reducer);
      // Rank 0 gets no data from rank 1.
      const auto input = batch.input * (group.rank() + 1);
      reducer.set_averaging(false);
      pipeline.train({kRows, input, batch.target}, mean_loss);
      CHECK(!reducer.is_averaging());
      if (group.rank() == 0) check_close(gradients_of(*model), expected[0]);
      reducer.set_averaging(true);
      pipeline.train({kRows, input, batch.target}, mean_loss);
      CHECK(reducer.is_averaging());
      auto sum = gradients_of(*model);
      auto other = sum.clone();
      group.broadcast(ddprun::torch::as_buffer(other), 0).wait();
      CHECK(sum.equal(other));
    });
  }

  TEST_CASE("pipeline: replicas start each batch with the first one's buffers") {
    run_ranks(4, [&](ProcessGroup& workers) {
      auto groups = ddprun::make_pipeline_groups(workers, 2);
      torch::nn::BatchNorm1d norm(6);
      ModuleReducer reducer(*norm, groups.replicas);
      Pipeline pipeline([&](const torch::Tensor& input) { return norm->forward(input); },
                        groups.stages, {.split_size = 6}, &reducer);
      for (int step = 0; step < 2; ++step) {
        const auto input = torch::arange(kRows, torch::kFloat).reshape({kRows, 1}).expand({-1, 6}) +
                           static_cast<double>(groups.place.replica + 1);
        pipeline.train({kRows, input, torch::zeros({kRows, 6})}, mean_loss);
      }
      if (!groups.place.is_first()) return;
      // A tenth of each micro-batch's mean; both steps of the second batch start from the first
      // one's result.
      double mean = 0;
      for (const int replica : {0, groups.place.replica}) {
        for (const double middle : {2.5, 8.5}) mean = 0.9 * mean + 0.1 * (replica + 1 + middle);
      }
      CHECK(norm->running_mean[0].item<double>() == doctest::Approx(mean).epsilon(1e-5));
    });
  }

  TEST_CASE("pipeline: a failed stage ends all stages and replicas") {
    const Batch batch = make_batch(61);
    struct Row {
      std::function<void()> fail;
      std::string reason;
    };
    const std::vector<Row> table = {
        {[] { throw 7; }, "a stage of the pipeline failed"},
        {[] { throw std::runtime_error("out of memory"); }, "out of memory"},
        {[] { TORCH_CHECK(false, "no such shape"); }, "no such shape"},
    };
    for (const Row& row : table) {
      CAPTURE(row.reason);
      std::vector<std::string> errors(4);
      run_ranks(4, [&](ProcessGroup& workers) {
        auto groups = ddprun::make_pipeline_groups(workers, 2);
        auto stage = make_stage(groups.place.stage, 2);
        ModuleReducer reducer(*stage, groups.replicas);
        int passes = 0;
        const StageForward forward = [&](const torch::Tensor& input) {
          if (workers.rank() == 2 && ++passes == 2) row.fail();
          return stage->forward(input);
        };
        Pipeline pipeline(forward, groups.stages, {.split_size = 3}, &reducer);
        const auto rank = static_cast<std::size_t>(workers.rank());
        try {
          errors[rank] = describe_failure([&] {
            pipeline.train({kRows, batch.input, batch.target}, mean_loss);
          });
        } catch (...) {
          errors[rank] = "its own";
        }
      });
      CHECK(errors[2] == "its own");
      for (const std::size_t rank : {0, 1, 3}) {
        CHECK_MESSAGE(errors[rank].find(row.reason) != std::string::npos, errors[rank]);
        // Messages do not contain a stack.
        CHECK_MESSAGE(errors[rank].find("Exception raised from") == std::string::npos,
                      errors[rank]);
      }
    }
  }

  TEST_CASE("pipeline: the output of the stages equals that of one module") {
    const Batch batch = make_batch(31);
    torch::Tensor expected = batch.input;
    for (int stage = 0; stage < 2; ++stage) expected = make_stage(stage, 2)->forward(expected);
    run_ranks(2, [&](ProcessGroup& group) {
      Pipeline pipeline(forward_of(make_stage(group.rank(), 2)), group, {.split_size = 5});
      const auto output = pipeline.evaluate({.rows = kRows, .input = batch.input});
      CHECK(output.defined() == (group.rank() == 1));
      if (output.defined()) check_close(output, expected);
    });
  }

  TEST_CASE("pipeline: invalid input is rejected with a message") {
    const Batch batch = make_batch(41);
    const auto error_of = [&](const PipelineBatch& wrong, std::int64_t split) {
      const auto group = ProcessGroup::create_in_process(1).front();
      return describe_failure([&] {
        Pipeline pipeline(forward_of(make_stage(0, 1)), group, {.split_size = split});
        pipeline.train(wrong, mean_loss);
      });
    };
    const std::string begin = "usage: pipeline: stage 0: ";
    CHECK(error_of({0, batch.input, batch.target}, 0) == begin + "a batch has 0 rows");
    CHECK(error_of({kRows, {}, batch.target}, 0) == begin + "the batch has no input");
    CHECK(error_of({kRows, batch.input, {}}, 0) == begin + "the batch has no target");
    CHECK(error_of({7, batch.input, batch.target}, 0) ==
          begin + "the input has 12 rows, the batch 7");
    CHECK(error_of({kRows, batch.input, torch::zeros({})}, 0) ==
          begin + "the target has no rows, the batch 12");
    CHECK(error_of({kRows, batch.input, batch.target}, -1) == begin + "split_size is -1");
  }

  TEST_CASE("pipeline: stages that split a batch differently get an error") {
    const Batch batch = make_batch(51);
    run_ranks(2, [&](ProcessGroup& group) {
      Pipeline pipeline(forward_of(make_stage(group.rank(), 2)), group,
                        {.split_size = group.rank() == 0 ? 6 : 4});
      const auto message = describe_failure([&] {
        pipeline.train({kRows, batch.input, batch.target}, mean_loss);
      });
      if (group.rank() == 0) {
        CHECK(message.find("stage 1 is at rows 0 to 3 of 12") != std::string::npos);
        return;
      }
      CHECK(message ==
            "usage: pipeline: stage 1 is at rows 0 to 3 of 12, but the stage before it sends rows "
            "0 to 5 of 12 (all stages need the same rows and split size)");
    });
  }

  TEST_CASE("pipeline: a stage whose output does not depend on its input is rejected") {
    const Batch batch = make_batch(61);
    run_ranks(2, [&](ProcessGroup& group) {
      Sequential model = make_stage(group.rank(), 2);
      const auto forward = [&](const torch::Tensor& input) {
        return model->forward(group.rank() == 0 ? input : torch::ones_like(input));
      };
      Pipeline pipeline(forward, group, {});
      const auto message = describe_failure([&] {
        pipeline.train({kRows, batch.input, batch.target}, mean_loss);
      });
      if (group.rank() == 0) {
        CHECK(message.find("its output does not use its input") != std::string::npos);
        return;
      }
      CHECK(message == "usage: pipeline: stage 1: its output does not use its input");
    });
  }
}

}  // namespace pipeline_test
