// Takes the stacks of all workers of a group, one capture at a time, and appends them to the
// workers' files. Runs on the agent's thread.
#pragma once

#include "launcher/process/stack_captures.hpp"
#include "launcher/process/stack_taker.hpp"
#include "launcher/process/worker.hpp"
#include "rendezvous/control/control_page.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <sys/types.h>
#include <vector>

namespace ddprun {

class GroupStacks {
 public:
  struct Hooks {
    std::function<void(StacksCaptured)> on_captured;
    std::function<void()> on_idle;  ///< called when all requests have been processed
  };

  /// The references outlive this object.
  GroupStacks(boost::asio::any_io_executor executor, int attempt, Containment& containment,
              const control::ControlPage& page, const Workers& workers, const StackPlan& plan,
              Hooks hooks, const Log& log);

  /// Takes stacks of workers that continue afterwards. `owner` keeps this object alive until then.
  bool take(std::shared_ptr<const void> owner, StackMoment moment);

  /// Takes stacks of workers before they are stopped, then calls `then`. Interrupts other requests,
  /// and in a hang replaces them.
  void take_last(std::shared_ptr<const void> owner, StackMoment moment, std::function<void()> then);

  /// Returns true until `on_idle`.
  bool is_busy() const { return captures_.is_busy(); }

  /// See StackCaptures.
  std::uint64_t changes() const { return captures_.changes(); }

  /// Returns the processes of the running tools.
  std::vector<pid_t> tools() const { return taker_.tools().pids(); }

  /// Kills the tools and takes no further stacks.
  void close();

 private:
  StackCapture capture(std::shared_ptr<const void> owner, StackMoment moment,
                       std::function<void()> then);
  static boost::asio::awaitable<void> take_all(GroupStacks* self, std::shared_ptr<const void> owner,
                                               StackMoment moment, Deadline deadline);
  boost::asio::awaitable<void> take_one(std::shared_ptr<Worker> worker, StackMoment moment,
                                        bool is_quick, Deadline deadline,
                                        std::vector<StacksTaken>& all);

  boost::asio::any_io_executor executor_;
  int attempt_;
  const control::ControlPage& page_;
  const Workers& workers_;
  Hooks hooks_;
  Log log_;
  StackTaker taker_;
  StackCaptures captures_;
  bool is_closed_ = false;
  bool is_hang_running_ = false;  ///< the running or last capture is of a hang
  bool drops_running_ = false;    ///< the next capture repeats the running one
};

}  // namespace ddprun
