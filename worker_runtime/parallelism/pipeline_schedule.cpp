#include <ddprun/error.hpp>
#include <ddprun/pipeline.hpp>

#include <algorithm>
#include <string>

namespace ddprun {

namespace {

using Direction = PipelinePass::Direction;

[[noreturn]] void refuse_pipeline(const std::string& what) {
  throw Error(Errc::usage, "pipeline: " + what);
}

void check_count(int count, const char* things) {
  if (count < 1) refuse_pipeline(std::to_string(count) + " " + things + " (at least 1)");
}

void check_index(const char* thing, int index, int count) {
  if (index >= 0 && index < count) return;
  refuse_pipeline(std::string(thing) + " " + std::to_string(index) + " is not within 0.." +
                  std::to_string(count - 1));
}

/// Returns the number of forward passes of a stage before its first backward pass.
int passes_before_turning(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  check_count(stages, "stages");
  check_index("stage", stage, stages);
  check_count(micro_batches, "micro-batches");
  if (schedule == PipelineSchedule::fill_drain) return micro_batches;
  return std::min(stages - stage, micro_batches);
}

}  // namespace

const char* to_string(PipelineSchedule schedule) noexcept {
  return schedule == PipelineSchedule::fill_drain ? "fill_drain" : "1f1b";
}

std::optional<PipelineSchedule> parse_pipeline_schedule(std::string_view text) {
  for (const auto schedule :
       {PipelineSchedule::fill_drain, PipelineSchedule::one_forward_one_backward}) {
    if (text == to_string(schedule)) return schedule;
  }
  return std::nullopt;
}

std::vector<PipelinePass> pipeline_passes(PipelineSchedule schedule, int stage, int stages,
                                          int micro_batches) {
  const int ahead = passes_before_turning(schedule, stage, stages, micro_batches);
  std::vector<PipelinePass> passes;
  passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int next = 0; next < ahead; ++next) passes.push_back({Direction::forward, next});
  for (int next = 0; next < micro_batches; ++next) {
    passes.push_back({Direction::backward, next});
    if (next + ahead < micro_batches) passes.push_back({Direction::forward, next + ahead});
  }
  return passes;
}

int activations_kept(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  return passes_before_turning(schedule, stage, stages, micro_batches);
}

PipelinePlace pipeline_place(int rank, int workers, int stages) {
  check_count(stages, "stages");
  check_count(workers, "workers");
  check_index("rank", rank, workers);
  if (workers % stages != 0) {
    const std::string count = std::to_string(stages);
    refuse_pipeline(std::to_string(workers) + (workers == 1 ? " worker" : " workers") +
                    " cannot be divided into pipelines of " + count +
                    " stages; start a multiple of " + count);
  }
  return {.stage = rank % stages,
          .stages = stages,
          .replica = rank / stages,
          .replicas = workers / stages};
}

}  // namespace ddprun
