// The order of stack captures: one capture of all workers at a time, because a process can have one
// debugger only, and within a time limit if the workers are to end afterwards. Runs on the agent's
// one thread.
#pragma once

#include "launcher/process/stack_taker.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <exception>
#include <functional>
#include <optional>

namespace ddprun {

/// One capture of all workers.
struct StackCapture {
  StackMoment moment;
  std::function<boost::asio::awaitable<void>(StackMoment, Deadline)> take;
  std::function<void()> then;  ///< called also if `take` has thrown
};

class StackCaptures {
 public:
  struct Hooks {
    std::function<void()> interrupt;  ///< ends the running capture soon
    std::function<void()> on_idle;    ///< no capture runs and none waits
  };

  /// A capture of all workers may take `limit`. The functions of a capture keep this object alive.
  StackCaptures(boost::asio::any_io_executor executor, Deadline::Duration limit, Hooks hooks,
                Log log);

  /// Takes stacks now or after the running capture. One capture waits at most: later ones would
  /// show the same.
  void ask(StackCapture capture);

  /// Takes the stacks of workers that are to end, within the limit from now on. Interrupts the
  /// running capture and replaces the waiting one.
  void take_last(StackCapture capture);

  /// Drops the waiting capture.
  void clear() { next_.reset(); }

  /// True until on_idle.
  bool is_busy() const { return is_busy_; }

 private:
  struct Planned {
    StackCapture capture;
    std::optional<Deadline> deadline;  ///< without one the limit starts with the capture
  };

  void begin(Planned planned);
  void report(const std::exception_ptr& failure) const;
  void end(const StackCapture& capture);

  boost::asio::any_io_executor executor_;
  Deadline::Duration limit_;
  Hooks hooks_;
  Log log_;
  bool is_busy_ = false;
  std::optional<Planned> next_;
};

}  // namespace ddprun
