#include "worker_runtime/libtorch/stage_link.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch.hpp>
#include <ddprun/torch/pipeline.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::torch {

namespace {

[[noreturn]] void refuse(int stage, const std::string& what) {
  throw Error(Errc::usage, "pipeline: stage " + std::to_string(stage) + ": " + what);
}

void require_rows(int stage, const at::Tensor& tensor, std::int64_t rows, const std::string& name) {
  if (!tensor.defined()) refuse(stage, "the batch has no " + name);
  if (tensor.dim() > 0 && tensor.size(0) == rows) return;
  refuse(stage, "the " + name + " has " +
                    (tensor.dim() > 0 ? std::to_string(tensor.size(0)) : std::string("no")) +
                    " rows, the batch " + std::to_string(rows));
}

at::Tensor rows_of(const at::Tensor& tensor, const MicroBatch& micro_batch) {
  return tensor.narrow(0, micro_batch.first, micro_batch.rows);
}

}  // namespace

class Pipeline::Impl {
 public:
  Impl(StageForward forward, const ProcessGroup& stages, const PipelineOptions& options,
       ModuleReducer* reducer)
      : forward_(std::move(forward)),
        link_(stages, options.device),
        options_(options),
        reducer_(reducer) {
    if (options.split_size < 0)
      refuse(link_.stage(), "split_size is " + std::to_string(options.split_size));
  }

  at::Tensor train(const PipelineBatch& batch, const MeanLoss& loss);
  at::Tensor evaluate(const PipelineBatch& batch);

  /// Calls `passes`; if it throws, aborts the groups, so that no rank waits for this stage.
  template <typename Passes>
  at::Tensor attempt(const Passes& passes);

 private:
  /// Aborts the groups of the stages and of the replicas.
  void abandon(const std::string& reason) {
    if (reducer_ != nullptr) reducer_->abort(reason);
    link_.abandon(reason);
  }

  /// Data of a forward pass that its backward pass needs.
  struct Kept {
    at::Tensor input;
    at::Tensor result;  ///< output; on the last stage its share of the loss
  };

  bool is_first() const { return link_.stage() == 0; }
  bool is_last() const { return link_.stage() + 1 == link_.stages(); }
  void check(const PipelineBatch& batch, bool needs_target) const;
  std::vector<MicroBatch> split(std::int64_t rows) const;
  at::Tensor input_of(const PipelineBatch& batch, const MicroBatch& micro_batch);
  Kept pass_forward(const PipelineBatch& batch, const MicroBatch& micro_batch,
                    const MeanLoss& loss);
  void pass_backward(const Kept& kept);

  StageForward forward_;
  StageLink link_;
  PipelineOptions options_;
  ModuleReducer* reducer_;
};

void Pipeline::Impl::check(const PipelineBatch& batch, bool needs_target) const {
  if (batch.rows < 1) refuse(link_.stage(), "a batch has " + std::to_string(batch.rows) + " rows");
  if (is_first()) require_rows(link_.stage(), batch.input, batch.rows, "input");
  if (is_last() && needs_target) require_rows(link_.stage(), batch.target, batch.rows, "target");
}

std::vector<MicroBatch> Pipeline::Impl::split(std::int64_t rows) const {
  const std::int64_t size = options_.split_size == 0 ? rows : options_.split_size;
  std::vector<MicroBatch> micro_batches;
  for (std::int64_t first = 0; first < rows; first += size)
    micro_batches.push_back({first, std::min(size, rows - first), rows});
  return micro_batches;
}

at::Tensor Pipeline::Impl::input_of(const PipelineBatch& batch, const MicroBatch& micro_batch) {
  return is_first() ? rows_of(batch.input, micro_batch) : link_.receive_activation(micro_batch);
}

at::Tensor Pipeline::Impl::train(const PipelineBatch& batch, const MeanLoss& loss) {
  check(batch, true);
  const auto micro_batches = split(batch.rows);
  const bool averages = reducer_ != nullptr && reducer_->is_averaging();
  std::optional<NoSync> until_the_end;
  if (reducer_ != nullptr) {
    // Also determines the mode of the first backward pass.
    until_the_end.emplace(*reducer_, !averages || micro_batches.size() > 1);
    reducer_->begin_forward();
  }
  const auto passes = pipeline_passes(options_.schedule, link_.stage(), link_.stages(),
                                      static_cast<int>(micro_batches.size()));
  std::vector<Kept> kept(micro_batches.size());
  at::Tensor mean;
  for (const auto& [direction, number] : passes) {
    const auto index = static_cast<std::size_t>(number);
    if (direction == PipelinePass::Direction::forward) {
      kept[index] = pass_forward(batch, micro_batches[index], loss);
      if (!is_last()) continue;
      const at::Tensor share = kept[index].result.detach();
      mean = mean.defined() ? mean + share : share;
    } else {
      if (averages) reducer_->set_averaging(micro_batches[index].is_last());
      pass_backward(kept[index]);
      kept[index] = {};
    }
  }
  link_.finish();
  return mean;
}

Pipeline::Impl::Kept Pipeline::Impl::pass_forward(const PipelineBatch& batch,
                                                  const MicroBatch& micro_batch,
                                                  const MeanLoss& loss) {
  Kept kept{.input = input_of(batch, micro_batch), .result = {}};
  if (!is_first()) kept.input.requires_grad_(true);
  kept.result = forward_(kept.input);
  if (!is_last()) {
    link_.send_activation(kept.result, micro_batch);
    return kept;
  }
  const double share =
      static_cast<double>(micro_batch.rows) / static_cast<double>(micro_batch.batch_rows);
  kept.result = loss(kept.result, rows_of(batch.target, micro_batch)) * share;
  return kept;
}

void Pipeline::Impl::pass_backward(const Kept& kept) {
  if (is_last()) {
    kept.result.backward();
  } else {
    const at::Tensor gradient = link_.receive_gradient(kept.result);
    // The first stage may have no parameters to train.
    if (kept.result.requires_grad()) kept.result.backward(gradient);
  }
  if (is_first()) return;
  if (!kept.input.grad().defined()) refuse(link_.stage(), "its output does not use its input");
  link_.send_gradient(kept.input.grad());
}

at::Tensor Pipeline::Impl::evaluate(const PipelineBatch& batch) {
  check(batch, false);
  const at::NoGradGuard no_graph;
  std::vector<at::Tensor> outputs;
  for (const auto& micro_batch : split(batch.rows)) {
    const at::Tensor output = forward_(input_of(batch, micro_batch));
    if (is_last()) {
      outputs.push_back(output);
    } else {
      link_.send_activation(output, micro_batch);
    }
  }
  link_.finish();
  return is_last() ? at::cat(outputs) : at::Tensor();
}

Pipeline::Pipeline(StageForward forward, const ProcessGroup& stages, const PipelineOptions& options,
                   ModuleReducer* reducer)
    : impl_(std::make_unique<Impl>(std::move(forward), stages, options, reducer)) {}
Pipeline::~Pipeline() = default;

template <typename Passes>
at::Tensor Pipeline::Impl::attempt(const Passes& passes) {
  try {
    return passes();
  } catch (const c10::Error& error) {
    abandon(error.what_without_backtrace());
    throw;
  } catch (const std::exception& error) {
    abandon(error.what());
    throw;
  } catch (...) {
    abandon("a stage of the pipeline failed");
    throw;
  }
}

at::Tensor Pipeline::train(const PipelineBatch& batch, const MeanLoss& loss) {
  return impl_->attempt([&] { return impl_->train(batch, loss); });
}
at::Tensor Pipeline::evaluate(const PipelineBatch& batch) {
  return impl_->attempt([&] { return impl_->evaluate(batch); });
}

}  // namespace ddprun::torch
