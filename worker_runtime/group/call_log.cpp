#include "worker_runtime/group/call_log.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace ddprun {

namespace {

using control::FlightCall;
using control::FlightState;
using control::GroupState;

template <typename Enumerator, std::size_t Count>
std::array<const char*, Count> names_of() {
  std::array<const char*, Count> names{};
  for (std::size_t i = 0; i < Count; ++i) names[i] = to_string(static_cast<Enumerator>(i));
  return names;
}

constexpr std::size_t kCollectives = static_cast<std::size_t>(kLastCollective) + 1;
constexpr std::size_t kTypes = static_cast<std::size_t>(DataType::uint8) + 1;
constexpr std::size_t kReductions = static_cast<std::size_t>(ReduceOp::max) + 1;

FlightCall flight_of(const Operation& operation, int ranks) {
  const Collective collective = operation.collective;
  FlightCall call{.call = static_cast<std::uint8_t>(collective),
                  .type = FlightCall::kNone,
                  .is_message = is_message(collective)};
  if (!has_elements(collective)) return call;
  const DataType type = data_type(operation);
  call.type = static_cast<std::uint8_t>(type);
  call.element_bytes = static_cast<std::uint8_t>(size_of(type));
  call.elements = part_elements(operation, static_cast<std::size_t>(ranks));
  if (combines(collective)) call.reduction = static_cast<std::uint8_t>(operation.op);
  if (call.is_message || has_root(collective)) call.peer = operation.peer;
  call.tag = operation.tag;
  return call;
}

}  // namespace

CallLog::CallLog(const WorkerEnv& env, const control::FlightGroup& group) : CallLog(group) {
  if (!env.control_page_fd) return;
  const int slot = env.control_page_slot;
  try {
    auto page = control::ControlPage::attach_again(*env.control_page_fd, slot);
    round_ = page.round();
    static const auto calls = names_of<Collective, kCollectives>();
    static const auto types = names_of<DataType, kTypes>();
    static const auto reductions = names_of<ReduceOp, kReductions>();
    recorder_ =
        control::FlightRecorder::begin(std::move(page), slot, group, {calls, types, reductions});
  } catch (const Error&) {
    // The run continues without a flight recorder.
  }
}

void CallLog::note(GroupState state) noexcept {
  if (recorder_) recorder_->note(state);
}

void CallLog::leave(bool has_failed) noexcept {
  note(has_failed ? GroupState::failed : GroupState::left);
  recorder_.reset();
}

std::uint64_t CallLog::enter(const Operation& operation, Deadline::Clock::time_point now) noexcept {
  return recorder_ ? recorder_->enter(flight_of(operation, size_), now) : 0;
}

void CallLog::end(std::uint64_t flight) noexcept {
  if (recorder_) recorder_->end(flight, FlightState::done);
}

std::chrono::nanoseconds CallLog::begin_wait() const noexcept {
  return recorder_ ? control::tick_time() : std::chrono::nanoseconds(0);
}

void CallLog::add_wait(std::chrono::nanoseconds begin) noexcept {
  if (recorder_) recorder_->add_wait(control::tick_time() - begin);
}

std::exception_ptr CallLog::fail(const Operation& operation, std::uint64_t flight,
                                 const std::exception_ptr& failure) noexcept {
  if (recorder_) recorder_->end(flight, FlightState::failed);
  note_failure();
  try {
    std::rethrow_exception(failure);
  } catch (const PeerFailed& peer) {
    return with_call(operation, peer);
  } catch (...) {
    return failure;
  }
}

std::exception_ptr CallLog::with_call(const Operation& operation, const PeerFailed& failure) const {
  const auto ranks = static_cast<std::size_t>(size_);
  std::string place = describe_in(name_, operation, ranks);
  if (round_ >= 0) place += " in round " + std::to_string(round_);
  return std::make_exception_ptr(PeerFailed(failure.rank(),
                                            std::string(failure.what()) + " (during " + place + ")",
                                            describe(operation, ranks), round_));
}

}  // namespace ddprun
