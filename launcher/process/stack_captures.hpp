// Schedules stack captures of all workers: one at a time, because a process can have only one
// debugger, and with a time limit if the workers are stopped afterwards. Runs on the agent's
// thread.
#pragma once

#include "launcher/process/stack_taker.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>

namespace ddprun {

/// One capture of all workers.
struct StackCapture {
  StackMoment moment;
  std::function<boost::asio::awaitable<void>(StackMoment, Deadline)> take;
  std::function<void()> then;  ///< also called if `take` has thrown
};

class StackCaptures {
 public:
  struct Hooks {
    std::function<void()> interrupt;  ///< ends the running capture soon
    std::function<void()> on_idle;    ///< no capture is running or pending
  };

  /// Each capture of all workers has a time limit of `limit`. The functions of a capture keep this
  /// object alive.
  StackCaptures(boost::asio::any_io_executor executor, Deadline::Duration limit, Hooks hooks,
                Log log);

  /// Takes stacks now or after the running capture. Returns false if one is pending: another would
  /// show the same.
  bool take(StackCapture capture);

  /// Takes the stacks of workers that are about to be stopped, within the limit from now on.
  /// Interrupts the running capture and replaces the pending one.
  void take_last(StackCapture capture);

  /// Drops the pending capture.
  void clear() { next_.reset(); }

  /// Returns true until on_idle.
  bool is_busy() const { return is_busy_; }

  /// Returns the number of begins and ends of captures; odd during a capture.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Planned {
    StackCapture capture;
    std::optional<Deadline> deadline;  ///< nullopt: the limit starts with the capture
  };

  void begin(Planned planned);
  void report(const std::exception_ptr& failure) const;
  void end(const StackCapture& capture);

  boost::asio::any_io_executor executor_;
  Deadline::Duration limit_;
  Hooks hooks_;
  Log log_;
  bool is_busy_ = false;
  std::uint64_t changes_ = 0;
  std::optional<Planned> next_;
};

}  // namespace ddprun
