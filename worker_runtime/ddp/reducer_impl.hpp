// State machine of a gradient reducer: the order of calls, and the collectives between steps.
// StepReduction handles the gradients.
#pragma once

#include "worker_runtime/ddp/drift_check.hpp"
#include "worker_runtime/ddp/input_count.hpp"
#include "worker_runtime/ddp/reducer_log.hpp"
#include "worker_runtime/ddp/state_broadcast.hpp"
#include "worker_runtime/ddp/step_reduction.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Implementation of GradientReducer.
class GradientReducer::Impl {
 public:
  Impl(ProcessGroup group, std::vector<Parameter> parameters, std::vector<Buffer> state,
       ReducerOptions options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// Aborts the group within a step, since the other ranks would wait for this rank's buckets.
  ~Impl() {
    if (has_unreduced_buckets()) {
      reduction_.queue().abort("its gradient reducer was destroyed within a step");
    }
  }

  const Buffer& gradient(std::size_t index) const {
    return reduction_.layout().gradient(checked(index));
  }
  const BucketLayout& layout() const { return reduction_.layout(); }
  std::shared_ptr<const void> memory(std::size_t index) const {
    return reduction_.layout().memory(checked(index));
  }
  void zero_gradients();
  void begin_forward(bool synchronise);
  void begin(bool synchronise);
  void ready(std::size_t index) { ready(index, reduction_.stream()); }
  void ready(std::size_t index, void* stream);
  void unused(std::size_t index);
  void discard(std::size_t index) { reduction_.discard(checked(index)); }
  StepTimeline finish(Deadline deadline);
  StepTimeline finish(void* stream);
  void synchronise(Deadline deadline) { reduction_.synchronise(deadline); }
  bool is_used(std::size_t index) const { return reduction_.is_used(checked(index)); }
  void join(const std::function<void()>& after_step);
  DdpLoggingData logging_data() const;

 private:
  /// In `checking`, the buckets of the failed step have been reduced.
  enum class Phase { idle, accumulating, synchronising, finishing, checking };

  bool has_unreduced_buckets() const {
    const Phase phase = phase_;
    return phase == Phase::synchronising || phase == Phase::finishing ||
           (forward_ && forward_->synchronise);
  }

  std::size_t checked(std::size_t index) const;
  void require_idle(const std::string& call) const;
  void require_step(std::size_t index, const char* what) const;
  void require_all_ready() const;
  [[noreturn]] void refuse_parameter(std::size_t index, const std::string& reason) const;
  void broadcast_all(int root);
  void require_capturable() const;
  bool is_rebuild_due() const;
  void rebuild();
  StepPartners prepare(bool takes_part, bool synchronise);
  void start(const StepPartners& partners);
  void shadow(const StepPartners& partners);
  template <typename Wait>
  StepTimeline finish_by(const Wait& wait);
  template <typename Wait>
  void complete_step(const Wait& wait);

  ProcessGroup group_;
  const ReducerOptions options_;
  const std::vector<Parameter> parameters_;
  const std::vector<Buffer> state_;
  InputCount inputs_;
  DriftCheck drift_;
  std::optional<StateBroadcast> buffers_;  ///< broadcast before every step
  std::optional<StepPartners> forward_;    ///< set from begin_forward() to begin()
  StepPartners partners_;                  ///< partners of the last begun step
  bool buffers_are_old_ = true;
  bool checks_drift_ = false;  ///< in this step
  bool has_rebuilt_ = false;
  std::int64_t steps_ = 0;  ///< number of completed synchronised steps
  std::atomic<Phase> phase_ = Phase::idle;
  Deadline::Clock::time_point forward_began_;
  double forward_seconds_ = 0;  ///< forward pass of the current step
  StepReduction reduction_;     // last, since its works may use the memory of the members above
  ReducerLog log_;
};

}  // namespace ddprun
