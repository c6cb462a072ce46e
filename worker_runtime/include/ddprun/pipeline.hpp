// Pipeline parallelism: a model is divided into stages, with one worker each, and a batch into
// micro-batches that pass through the stages. This file has the parts that do not depend on the
// model: assignment of workers to stages, their groups, and the order of a stage's passes.
//
// With replicas, several pipelines train on different batches. Worker r is stage r % stages of
// replica r / stages, so the stages of a pipeline have consecutive ranks, on one node if they fit.
// Workers of the same stage average their gradients.
#pragma once

#include <ddprun/process_group.hpp>

#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

/// Order of a stage's passes.
enum class PipelineSchedule {
  /// Runs all forward passes, then all backward passes (GPipe, Huang et al. 2019). A stage keeps
  /// the activations of all micro-batches.
  fill_drain,
  /// Runs each backward pass as soon as possible (PipeDream-flush, Narayanan et al. 2021). It takes
  /// the same time, but a stage keeps the activations of at most as many micro-batches as there are
  /// stages from this stage to the last.
  one_forward_one_backward,
};

/// Returns "fill_drain" or "1f1b".
const char* to_string(PipelineSchedule schedule) noexcept;
/// Returns the schedule with this name, or nothing for an unknown name.
std::optional<PipelineSchedule> parse_pipeline_schedule(std::string_view text);

/// A pass of a micro-batch through a stage.
struct PipelinePass {
  /// Forward passes compute outputs, backward passes gradients.
  enum class Direction { forward, backward };
  Direction direction = Direction::forward;  ///< direction of this pass
  int micro_batch = 0;                       ///< index within the batch

  bool operator==(const PipelinePass&) const = default;
};

/// Returns the passes of stage `stage` of `stages` in order, for a batch of at least one
/// micro-batch. Micro-batches are in ascending order in both directions, so gradients are
/// accumulated in the same order with any schedule. Throws Error{Errc::usage} for arguments out of
/// range. Pure.
std::vector<PipelinePass> pipeline_passes(PipelineSchedule schedule, int stage, int stages,
                                          int micro_batches);

/// Returns the maximum number of micro-batches whose activations a stage keeps. Throws like
/// pipeline_passes(). Pure.
int activations_kept(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// A worker's place in the pipelines.
struct PipelinePlace {
  int stage = 0;     ///< index of the stage, from 0
  int stages = 1;    ///< number of stages per pipeline
  int replica = 0;   ///< index of the pipeline, from 0
  int replicas = 1;  ///< number of pipelines

  /// Returns true if the stage's input is the batch.
  bool is_first() const { return stage == 0; }
  /// Returns true if the stage's output is the output of the model.
  bool is_last() const { return stage + 1 == stages; }
  bool operator==(const PipelinePlace&) const = default;
};

/// Returns the place of worker `rank`. Throws Error{Errc::usage} if `rank` is not within
/// 0..workers-1, and unless `stages` divides `workers`.
PipelinePlace pipeline_place(int rank, int workers, int stages);

/// The place of this worker and its groups.
struct PipelineGroups {
  PipelinePlace place;    ///< place of this worker
  ProcessGroup stages;    ///< workers of this replica; rank s is stage s
  ProcessGroup replicas;  ///< workers of this stage; rank r is replica r
};

/// Creates the groups. A collective of all ranks of `workers`. Throws like pipeline_place().
PipelineGroups make_pipeline_groups(ProcessGroup& workers, int stages);

}  // namespace ddprun
