// In which order stacks are taken: one capture of all workers at a time, as two debuggers cannot
// look at one process, and none that keeps the workers' end waiting longer than its own limit. Does
// not know how stacks are taken. Runs on the agent's one thread.
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
  std::function<void()> then;  ///< called in any case, also if `take` threw
};

class StackCaptures {
 public:
  struct Hooks {
    std::function<void()> interrupt;  ///< ends the capture under way soon
    std::function<void()> on_idle;    ///< called when none is under way and none waits
  };

  /// Lives as long as anything that a capture's functions hold.
  /// A capture of all workers may take `limit`.
  StackCaptures(boost::asio::any_io_executor executor, Deadline::Duration limit, Hooks hooks,
                Log log);

  /// Takes stacks now or after the capture under way. Of several that wait then, the first stands
  /// for all: they would see the same.
  void ask(StackCapture capture);

  /// Takes the stacks of workers that are to end: instead of what is under way or waits, and within
  /// the limit from now on.
  void take_last(StackCapture capture);

  /// What waits is not begun any more.
  void clear() { next_.reset(); }

  /// True until on_idle.
  bool is_busy() const { return is_busy_; }

 private:
  struct Planned {
    StackCapture capture;
    std::optional<Deadline> deadline;  ///< without one it has all its time from its beginning
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
