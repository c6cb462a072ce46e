// Takes the stacks of one worker by the best means that there are (launcher/stacks/stack_means.hpp
// decides). Runs on the agent's one thread.
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

/// Why stacks are taken, and what comes afterwards.
struct StackMoment {
  std::string reason;
  int next_signal = 0;       ///< what the workers get next; 0: none, they continue
  std::vector<int> ranks{};  ///< whose stacks are taken; empty: all
};

/// What a worker's stacks may fill: hundreds of threads' frames.
inline constexpr std::size_t kStackBytesMax = 256U << 10;

class StackTaker {
 public:
  /// `containment` outlives the taker, and the taker its coroutines.
  StackTaker(boost::asio::any_io_executor executor, Containment& containment,
             const StackPlan& plan);

  /// Done at the deadline or soon after it (a tool gets a moment to let go of the worker). A worker
  /// that is to end anyway may end by this, and is then marked was_stopped. `has_runtime`: it has
  /// announced itself on the control page. Appends to the worker's file of stacks if there is one.
  boost::asio::awaitable<StacksTaken> take(std::shared_ptr<Worker> worker, bool has_runtime,
                                           StackMoment moment, Deadline deadline);

  /// A capture begins: what follows is not interrupted.
  void begin() { is_interrupted_ = false; }

  /// Ends what has begun soon, with what has been found so far.
  void interrupt();

  /// The same at once.
  void kill() noexcept;

  /// The tools that run now.
  const ToolRunner& tools() const { return tools_; }

 private:
  /// The stacks, or why there are none.
  struct Found {
    std::string text;
    std::string problem;
  };

  /// The process that is inspected: a worker's own, or the one behind a worker that is a wrapper.
  struct TraceTarget {
    std::shared_ptr<Worker> worker;
    pid_t pid;
    std::shared_ptr<const OpenProcess> behind;  ///< null: the worker's own

    /// While this is false, `pid` is the number of this process.
    bool has_ended() const;

    /// How a tool that inspects it is to be started now.
    ToolStart tool_start() const;
  };

  /// Reduces what a tool has printed to the stacks in it.
  using StacksIn = std::string (*)(std::string_view tool_output);

  static TraceTarget patient_of(std::shared_ptr<Worker> worker);

  StackFacts facts_of(pid_t pid, bool has_runtime, const StackMoment& moment) const;
  boost::asio::awaitable<Found> find_by(StackMeans means, TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> ask_runtime(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> name_functions(SymbolRequest request, TraceTarget target,
                                               Deadline deadline);
  boost::asio::awaitable<Found> run_tool(std::vector<std::string> arguments, StacksIn stacks_of,
                                         TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> call_python(TraceTarget target, Deadline deadline);
  boost::asio::awaitable<Found> end_by_abort(TraceTarget target, Deadline deadline);

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  StackPlan plan_;
  ToolRunner tools_;
  bool is_interrupted_ = false;
};

}  // namespace ddprun
