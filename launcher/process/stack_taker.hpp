// Takes the stacks of one worker by the best method available (see
// launcher/stacks/stack_means.hpp). Runs on the agent's thread.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/run_members.hpp"
#include "launcher/process/tool_runner.hpp"
#include "launcher/process/worker.hpp"
#include "launcher/report/event.hpp"
#include "launcher/stacks/stack_means.hpp"
#include "launcher/stacks/symbol_reader.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// Maximum size of a worker's stacks: the frames of hundreds of threads.
inline constexpr std::size_t kStackBytesMax = 256U << 10;

class StackTaker {
 public:
  /// `containment` must outlive the taker, and the taker must outlive its coroutines.
  StackTaker(boost::asio::any_io_executor executor, Containment& containment,
             const StackPlan& plan);

  /// Returns at the deadline or shortly after it (a tool needs time to detach). May end a worker
  /// that is about to be stopped, which is then marked was_stopped. `has_runtime`: the worker has
  /// registered on the control page. `is_quick`: only by methods that take less than a second; if
  /// all fail, the result has neither lines nor problems.
  boost::asio::awaitable<StacksTaken> take(std::shared_ptr<Worker> worker, bool has_runtime,
                                           StackMoment moment, bool is_quick, Deadline deadline);

  /// Starts a capture: clears an earlier interruption.
  void begin() { is_interrupted_ = false; }

  /// Ends the running captures soon, with the stacks found so far.
  void interrupt();

  /// Ends the running captures immediately.
  void kill() noexcept;

  /// Returns the running tools.
  const ToolRunner& tools() const { return tools_; }

 private:
  /// The stacks, or the reason for their absence.
  struct Found {
    std::string text;
    std::string problem;
  };

  /// The process to inspect: the worker's, or its child if the worker is a wrapper.
  struct TraceTarget {
    std::shared_ptr<Worker> worker;
    pid_t pid;
    std::shared_ptr<const OpenProcess> behind;  ///< null: the worker's process

    /// While false, `pid` refers to this process.
    bool has_ended() const;

    void signal(int signal) const;

    /// Returns how to start a tool that inspects the process now.
    ToolStart tool_start() const;
  };

  /// Extracts the stacks from the output of a tool.
  using StacksIn = std::string (*)(std::string_view tool_output);

  static TraceTarget trace_target_of(std::shared_ptr<Worker> worker);

  StackFacts facts_of(pid_t pid, bool has_runtime, const StackMoment& moment) const;
  boost::asio::awaitable<Found> find_by(StackMeans means, TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> request_from_thread(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> request_from_runtime(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> name_functions(SymbolRequest request, TraceTarget target,
                                               Deadline deadline);
  boost::asio::awaitable<Found> run_tool(std::vector<std::string> arguments, StacksIn stacks_of,
                                         TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> run_py_spy(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> call_python(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> end_by_abort(TraceTarget target, Deadline deadline);

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  StackPlan plan_;
  ToolRunner tools_;
  bool is_interrupted_ = false;
};

}  // namespace ddprun
