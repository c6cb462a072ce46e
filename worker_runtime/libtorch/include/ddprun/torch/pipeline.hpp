// One stage of a model whose stages are workers of their own (pipeline parallelism): activations go
// to the next stage, gradients back to the one before. Every stage calls the same functions with
// the same number of rows. One thread at a time may call.
#pragma once

#include <ddprun/pipeline.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/torch/module_reducer.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::torch {

/// What a stage computes: one tensor of a floating type from one, rows first in both.
using StageForward = std::function<at::Tensor(const at::Tensor& input)>;
/// The mean over the rows of `output`, [rows, ...], and of `target`, [rows, ...]; a scalar.
using MeanLoss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

/// How a stage works.
struct PipelineOptions {
  /// The same on all stages.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  /// Rows of a micro-batch, the last of a batch may have fewer; 0 is the whole batch. Small ones
  /// leave stages idle for a smaller part of the time, but cost more calls and less parallel ones.
  std::int64_t split_size = 0;
  /// Where this stage computes.
  at::Device device = at::kCPU;
};

/// What a step works on. A stage needs only what it uses.
struct PipelineBatch {
  std::int64_t rows = 0;  ///< on all stages
  at::Tensor input;       ///< on the first: [rows, ...]
  at::Tensor target;      ///< on the last, to train: [rows, ...]
};

/// One stage of a pipeline.
class Pipeline {
 public:
  /// Rank s of `stages` is stage s. `forward` is called with rows of micro-batches, which it must
  /// not change in place; what it refers to must outlive this object, as must `reducer`, if there
  /// is one: it averages this stage's gradients over replicas (PipelineGroups::replicas) during the
  /// last backward pass of a batch, unless it is told not to (ModuleReducer::set_averaging()), and
  /// gives all replicas the first one's buffers before a batch if its options say so.
  Pipeline(StageForward forward, const ProcessGroup& stages, const PipelineOptions& options = {},
           ModuleReducer* reducer = nullptr);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// Adds to the gradients of this stage's parameters those of the mean of `loss` over the batch.
  /// Returns that mean on the last stage, without a graph; an undefined tensor elsewhere. Blocks
  /// until this stage's work is done. Throws Error{Errc::usage} for batches that do not fit the
  /// stages or one another, and what the group's calls and `forward` throw; the group and the
  /// reducer's are aborted then, so that nobody waits in the middle of a batch.
  at::Tensor train(const PipelineBatch& batch, const MeanLoss& loss);

  /// The model's output on the last stage, an undefined tensor elsewhere; no gradients.
  at::Tensor evaluate(const PipelineBatch& batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::torch
