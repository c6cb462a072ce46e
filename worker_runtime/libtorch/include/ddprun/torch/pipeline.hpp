// A stage of a pipeline-parallel model whose stages are workers. Activations are sent to the next
// stage, gradients to the previous one. All stages must make the same calls with the same number of
// rows. One thread at a time.
#pragma once

#include <ddprun/pipeline.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/torch/module_reducer.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ddprun::torch {

/// Computes a stage: maps a floating-point tensor to another one. The first dimension of both is
/// rows.
using StageForward = std::function<at::Tensor(const at::Tensor& input)>;
/// Returns the mean of the loss over the rows of `output`, [rows, ...], and `target`, [rows, ...],
/// as a scalar.
using MeanLoss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

/// Options of a stage.
struct PipelineOptions {
  /// Must be equal on all stages.
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  /// Rows of a micro-batch; 0: the whole batch. The last micro-batch may have fewer. Small
  /// micro-batches reduce the idle time of stages, but add overhead and reduce parallelism.
  std::int64_t split_size = 0;
  /// Device of this stage.
  at::Device device = at::kCPU;
};

/// A batch. Each stage needs only the fields that it uses.
struct PipelineBatch {
  std::int64_t rows = 0;  ///< number of rows, on all stages
  at::Tensor input;       ///< input, on the first stage: [rows, ...]
  at::Tensor target;      ///< target, on the last stage in training: [rows, ...]
};

/// One stage of a pipeline.
class Pipeline {
 public:
  /// Rank s of `stages` is stage s. `forward` is called with rows of micro-batches and must not
  /// change them in place. Objects that it refers to must outlive this object. So must `reducer`,
  /// if set: it averages this stage's gradients over replicas (PipelineGroups::replicas) during the
  /// last backward pass of a batch, unless disabled by ModuleReducer::set_averaging(), and
  /// broadcasts the first replica's buffers before a batch if its options say so.
  Pipeline(StageForward forward, const ProcessGroup& stages, const PipelineOptions& options = {},
           ModuleReducer* reducer = nullptr);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// Adds the gradients of the mean of `loss` over the batch to the gradients of this stage's
  /// parameters. Returns that mean without a graph on the last stage, and an undefined tensor on
  /// others. Blocks until this stage has finished. Throws Error{Errc::usage} for batches that do
  /// not fit the stages or each other, and exceptions of the groups and of `forward`. It then
  /// aborts the groups of the stages and the reducer, so that no rank keeps waiting.
  at::Tensor train(const PipelineBatch& batch, const MeanLoss& loss);

  /// Returns the model's output without gradients on the last stage, and an undefined tensor on
  /// others.
  at::Tensor evaluate(const PipelineBatch& batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::torch
