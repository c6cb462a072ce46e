// What a process group notes of its calls: each goes into the worker's flight recorder, if there is
// one, and what fails because of another rank is told with the call that it befell. Functions are
// called one at a time, from any thread; calls may overlap.
#pragma once

#include "rendezvous/control/flight_recorder.hpp"
#include "worker_runtime/backends/backend.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/peer_failed.hpp>
#include <ddprun/worker_env.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace ddprun {

class CallLog {
 public:
  /// For a group whose ranks nobody watches: nothing is recorded.
  explicit CallLog(const control::FlightGroup& group) : name_(group.name), size_(group.size) {}

  /// For a worker of `env`: recorded if its agent has given it a control page.
  CallLog(const WorkerEnv& env, const control::FlightGroup& group);

  /// All ranks have met.
  void open() noexcept { note(control::GroupState::open); }
  void leave() noexcept;

  /// Returns what the call is called here when it ends.
  std::uint64_t enter(const Operation& operation, Deadline::Clock::time_point now) noexcept;
  void end(std::uint64_t flight) noexcept;
  /// Returns what the failed call's caller is to get: a PeerFailed with the call added, anything
  /// else as it is.
  std::exception_ptr fail(const Operation& operation, std::uint64_t flight,
                          const std::exception_ptr& failure) noexcept;

 private:
  void note(control::GroupState state) noexcept;
  std::exception_ptr with_call(const Operation& operation, const PeerFailed& failure) const;

  std::string name_;
  int size_;
  int round_ = -1;  ///< unknown without a control page
  bool has_failed_ = false;
  std::optional<control::FlightRecorder> recorder_;
};

}  // namespace ddprun
