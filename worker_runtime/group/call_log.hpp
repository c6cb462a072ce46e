// Records the calls of a process group in the worker's flight recorder, if there is one, and adds
// the failed call to errors caused by other ranks. Functions are called from any thread, but one at
// a time, except those for waits; the recorded calls may overlap.
#pragma once

#include "rendezvous/control/flight_recorder.hpp"
#include "worker_runtime/backends/backend.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/peer_failed.hpp>
#include <ddprun/worker_env.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace ddprun {

class CallLog {
 public:
  /// Creates a log without a flight recorder.
  explicit CallLog(const control::FlightGroup& group) : name_(group.name), size_(group.size) {}

  /// Creates a log with a flight recorder if the worker's agent has provided a control page.
  CallLog(const WorkerEnv& env, const control::FlightGroup& group);

  /// Records that all ranks are connected.
  void open() noexcept { note(control::GroupState::open); }
  /// Ends the log.
  void leave(bool has_failed) noexcept;

  /// Returns the number of the call, for end() or fail().
  std::uint64_t enter(const Operation& operation, Deadline::Clock::time_point now) noexcept;
  void end(std::uint64_t flight) noexcept;

  // Callable by several threads at a time, but not after leave() has begun.

  /// Returns the time at which a wait for a call begins, for add_wait(). Does not read the clock
  /// without a flight recorder.
  std::chrono::nanoseconds begin_wait() const noexcept;
  /// Records a wait that ends now.
  void add_wait(std::chrono::nanoseconds begin) noexcept;
  /// Records that the group has failed.
  void note_failure() noexcept { note(control::GroupState::failed); }

  /// Returns the exception for the caller: a PeerFailed with the call added, or `failure`.
  std::exception_ptr fail(const Operation& operation, std::uint64_t flight,
                          const std::exception_ptr& failure) noexcept;

 private:
  void note(control::GroupState state) noexcept;
  std::exception_ptr with_call(const Operation& operation, const PeerFailed& failure) const;

  std::string name_;
  int size_;
  int round_ = -1;  ///< -1 without a control page
  std::optional<control::FlightRecorder> recorder_;
};

}  // namespace ddprun
