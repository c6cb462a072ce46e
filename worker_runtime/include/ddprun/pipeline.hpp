// Pipeline parallelism: a model is cut into stages, one worker each, and a batch into micro-batches
// that follow one another through them. Here is what does not depend on what a model is made of:
// which worker is which stage, the groups in which they speak, and in which order a stage works.
//
// With replicas, several pipelines train on batches of their own: worker r is stage r % stages of
// replica r / stages, so that the stages of a pipeline are neighbours, on one node if they fit, and
// workers of the same stage average their gradients.
#pragma once

#include <ddprun/process_group.hpp>

#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

/// The order of a stage's work.
enum class PipelineSchedule {
  /// All forward passes, then all backward passes (GPipe, Huang et al. 2019): a stage keeps the
  /// activations of all micro-batches.
  fill_drain,
  /// A backward pass as soon as there is one to do (PipeDream-flush, Narayanan et al. 2021): as
  /// long, but a stage keeps the activations of no more micro-batches than stages follow it, and
  /// its own.
  one_forward_one_backward,
};

/// "fill_drain" or "1f1b".
const char* to_string(PipelineSchedule schedule) noexcept;
/// Nothing if it is neither.
std::optional<PipelineSchedule> parse_pipeline_schedule(std::string_view text);

/// One pass of one micro-batch through a stage.
struct PipelinePass {
  /// Forward passes compute outputs, backward passes gradients.
  enum class Direction { forward, backward };
  Direction direction = Direction::forward;  ///< of this pass
  int micro_batch = 0;                       ///< index within the batch

  bool operator==(const PipelinePass&) const = default;
};

/// Pure. What stage `stage` of `stages` does with a batch, in this order. In both directions micro-
/// batches go in the order of their numbers, so gradients are added up in the same order whatever
/// the schedule. `micro_batches` is at least 1.
std::vector<PipelinePass> pipeline_passes(PipelineSchedule schedule, int stage, int stages,
                                          int micro_batches);

/// Pure. For how many micro-batches a stage keeps activations at the same time.
int activations_kept(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// Where a worker stands.
struct PipelinePlace {
  int stage = 0;     ///< index of the stage, from 0
  int stages = 1;    ///< stages of each pipeline
  int replica = 0;   ///< index of the pipeline, from 0
  int replicas = 1;  ///< number of pipelines

  /// Whether its input is the batch.
  bool is_first() const { return stage == 0; }
  /// Whether its output is the model's.
  bool is_last() const { return stage + 1 == stages; }
  bool operator==(const PipelinePlace&) const = default;
};

/// Pure. Throws Error{Errc::usage} if `workers` cannot be divided into pipelines of `stages`.
PipelinePlace pipeline_place(int rank, int workers, int stages);

/// The place of this worker and the groups that it is part of.
struct PipelineGroups {
  PipelinePlace place;    ///< of this worker
  ProcessGroup stages;    ///< of this replica; rank s is stage s
  ProcessGroup replicas;  ///< of this stage; rank r is replica r
};

/// All ranks of `workers` must call it. Blocks until all are there. Throws as pipeline_place().
PipelineGroups make_pipeline_groups(ProcessGroup& workers, int stages);

}  // namespace ddprun
