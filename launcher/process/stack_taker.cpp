#include "launcher/process/stack_taker.hpp"

#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/python_inspection.hpp"
#include "launcher/process/runtime_stacks.hpp"
#include "launcher/stacks/gdb_arguments.hpp"
#include "launcher/stacks/native_stack.hpp"
#include "launcher/stacks/python_answer.hpp"
#include "launcher/stacks/symbol_reader.hpp"
#include "launcher/stacks/tool_output.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The threads of a worker respond within milliseconds, or never if they block the signal.
constexpr auto kRuntimeLimit = 1s;
// A thread of Python answers within milliseconds, or never if another one keeps the interpreter
// locked.
constexpr auto kThreadLimit = 1s;
// Time for Python to print the frames of all threads and to end.
constexpr auto kAbortLimit = 1s;

// Limit of quick methods: a hung process may block them.
constexpr auto kQuickLimit = 2s;

// Shown if py-spy is missing.
constexpr const char* kPySpyHint = "no Python lines: they need py-spy ('pip install py-spy')";

constexpr const char* kHasEnded = "it has ended";
constexpr const char* kUserUnknown =
    "the user of the process is unknown (/proc/PID/status cannot be read), and a tool of root's "
    "is not started for it";

Deadline sooner(Deadline deadline, Deadline::Duration limit) {
  return deadline.remaining() < limit ? deadline : Deadline::after(limit);
}

/// Prevents a core file of a worker that is ended to get its stacks: it would be useless and
/// possibly huge. With a limit of 1 the kernel writes neither a file nor to a pipe (core(5)).
void prevent_core(pid_t pid) {
  rlimit limit{};
  if (::prlimit(pid, RLIMIT_CORE, nullptr, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::prlimit(pid, RLIMIT_CORE, &limit, nullptr);
}

/// Returns the heading and the frames of one thread; empty if it is missing.
std::vector<std::string> lines_of_thread(const std::vector<std::string>& lines, pid_t thread) {
  const auto is_heading = [](const std::string& line) { return line.starts_with("Thread "); };
  const std::string heading = "Thread " + std::to_string(thread) + " ";
  const auto begin = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.starts_with(heading);
  });
  if (begin == lines.end()) return {};
  return {begin, std::find_if(begin + 1, lines.end(), is_heading)};
}

bool is_stopped(pid_t pid) {
  const char letter = process_state(pid).letter;
  return letter == 'T' || letter == 't';
}

/// Returns true for a process in state D that is still in it after a moment: one that reads from a
/// disk is soon not.
asio::awaitable<bool> stays_uninterruptible(asio::any_io_executor executor, pid_t pid) {
  constexpr auto kMoment = 100ms;
  if (!is_uninterruptible(pid)) co_return false;
  asio::steady_timer timer(executor, kMoment);
  co_await timer.async_wait(asio::use_awaitable);
  co_return is_uninterruptible(pid);
}

asio::awaitable<void> wait_for_end(asio::any_io_executor executor, pid_t pid, Deadline deadline) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.get() < 0) co_return;
  asio::posix::stream_descriptor end(executor, pidfd.release());
  auto ending = end.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
  co_await with_deadline(std::move(ending), deadline);
}

}  // namespace

StackTaker::StackTaker(asio::any_io_executor executor, Containment& containment,
                       const StackPlan& plan)
    : executor_(executor),
      containment_(containment),
      plan_(plan),
      tools_(std::move(executor), containment) {}

void StackTaker::interrupt() {
  is_interrupted_ = true;
  tools_.interrupt();
}

void StackTaker::kill() noexcept {
  is_interrupted_ = true;
  tools_.kill();
}

bool StackTaker::TraceTarget::has_ended() const {
  return worker->has_ended || worker->process.has_ended() || (behind && behind->has_ended());
}

/// Does nothing if the process has ended, since another one may have its PID.
void StackTaker::TraceTarget::signal(int signal) const {
  if (behind) {
    behind->signal(signal);
  } else if (!has_ended()) {
    ::kill(pid, signal);
  }
}

/// A tool with root privileges could be exploited by the process that it inspects.
ToolStart StackTaker::TraceTarget::tool_start() const {
  const auto user = user_of(pid);
  // Checked afterwards: the user then was that of this process.
  if (has_ended()) return {.objection = kHasEnded};
  if (::geteuid() != 0) return {};
  if (!user) return {.objection = kUserUnknown};
  if (user->user == 0) return {};
  return {.user = user};
}

StackTaker::TraceTarget StackTaker::trace_target_of(std::shared_ptr<Worker> worker) {
  const pid_t own = worker->process.pid();
  const pid_t pid = program_behind(own);
  if (pid != own) {
    // Opened first: if the process still exists afterwards, the descriptor refers to it.
    auto process = open_process(pid);
    if (process && program_behind(own) == pid)
      return {.worker = std::move(worker),
              .pid = pid,
              .behind = std::make_shared<const OpenProcess>(std::move(*process))};
  }
  return {.worker = std::move(worker), .pid = own, .behind = nullptr};
}

StackFacts StackTaker::facts_of(pid_t pid, bool has_runtime, const StackMoment& moment) const {
  const int next = moment.next_signal;
  return {.is_python = is_python(pid),
          // It may have executed another program since, which the signal would kill.
          .has_runtime = has_runtime && catches(pid, control::stack_request_signal()),
          .catches_abort = catches(pid, SIGABRT),
          .may_end = next == SIGKILL || (next != 0 && !catches(pid, next)),
          .has_py_spy = !plan_.py_spy.empty(),
          .has_gdb = !plan_.gdb.empty()};
}

asio::awaitable<StacksTaken> StackTaker::take(std::shared_ptr<Worker> worker, bool has_runtime,
                                              StackMoment moment, bool is_quick,
                                              Deadline deadline) {
  if (is_quick) deadline = sooner(deadline, kQuickLimit);
  StacksTaken taken{
      .rank = worker->spec.rank, .pid = worker->process.pid(), .reason = std::move(moment.reason)};
  const TraceTarget target = trace_target_of(worker);
  auto facts = facts_of(target.pid, has_runtime, moment);
  facts.has_thread = worker->is_fork_of_python() && target.pid == worker->process.pid();
  facts.is_quick = is_quick;
  std::string text;
  bool has_enough = false;
  for (const StackMeans means : stack_means_for(facts)) {
    // A process may come into this state by the signal of an earlier tool.
    const bool would_wait =
        needs_stop(means) && co_await stays_uninterruptible(executor_, target.pid);
    const bool is_last_resort = means == StackMeans::kernel;
    if (worker->has_ended || worker->process.has_ended() || is_interrupted_ ||
        (is_last_resort && !text.empty()))
      break;
    if (would_wait) continue;
    taken.was_ended = means == StackMeans::faulthandler;
    Found found = co_await find_by(means, target, deadline);
    if (is_interrupted_ && found.text.empty()) break;  // its problem is the interruption
    if (!found.problem.empty()) taken.problems.push_back(to_string(means) + ": " + found.problem);
    if (found.text.empty()) continue;
    taken.means.push_back(to_string(means));
    // Methods that were tried later have the better view of the program, and come first.
    text = found.text + (text.empty() ? "" : "\n" + text);
    has_enough = is_enough(means, facts);
    if (has_enough) break;
  }
  if (is_quick && text.empty()) taken.problems.clear();
  if (!is_quick && !has_enough && facts.is_python && !facts.has_py_spy)
    taken.problems.push_back(kPySpyHint);
  // The worker has ended by itself. If it was ended to get its stacks, problems are reported.
  if (text.empty() && !taken.was_ended) taken.problems.clear();
  if (text.size() > kStackBytesMax) text.resize(kStackBytesMax);
  taken.lines = split(printable(text), '\n');
  if (is_quick) taken.lines = lines_of_thread(taken.lines, target.pid);
  while (!taken.lines.empty() && taken.lines.back().empty()) taken.lines.pop_back();
  co_return taken;
}

asio::awaitable<StackTaker::Found> StackTaker::find_by(StackMeans means, TraceTarget target,
                                                       Deadline deadline) {
  const pid_t pid = target.pid;
  const auto tool_deadline = sooner(deadline, plan_.limits.tool);
  switch (means) {
    case StackMeans::runtime:
      return request_from_runtime(std::move(target), tool_deadline);
    case StackMeans::python_thread:
      return request_from_thread(std::move(target), sooner(deadline, kThreadLimit));
    case StackMeans::py_spy:
      return run_py_spy(std::move(target), tool_deadline);
    case StackMeans::python_by_gdb:
      return call_python(std::move(target), tool_deadline);
    case StackMeans::gdb:
      return run_tool(native_stack_arguments(plan_.gdb, pid), stacks_in, std::move(target),
                      tool_deadline);
    case StackMeans::faulthandler:
      return end_by_abort(std::move(target), sooner(deadline, kAbortLimit));
    case StackMeans::kernel:
      break;
  }
  return [](pid_t process) -> asio::awaitable<Found> {
    co_return Found{.text = thread_states(process), .problem = ""};
  }(pid);
}

asio::awaitable<StackTaker::Found> StackTaker::request_from_thread(TraceTarget target,
                                                                   Deadline deadline) {
  if (is_stopped(target.pid)) co_return Found{.text = "", .problem = "the process is stopped"};
  auto asking =
      request_python_answer(executor_, target.pid, target.worker->inspection_socket, deadline);
  const auto text = co_await std::move(asking);
  if (!text) co_return Found{};  // without a process group, or now another program
  auto answer = parse_python_answer(*text);
  if (!answer) co_return Found{.text = "", .problem = "no answer"};
  target.worker->python_flights = std::move(answer->flights);
  co_return Found{.text = std::move(answer->stacks), .problem = ""};
}

asio::awaitable<StackTaker::Found> StackTaker::request_from_runtime(TraceTarget target,
                                                                    Deadline deadline) {
  const pid_t pid = target.pid;
  if (is_stopped(pid)) co_return Found{.text = "", .problem = "the process is stopped"};
  auto requesting =
      request_runtime_stacks(executor_, pid, target.worker->spec.error_file.parent_path(),
                             sooner(deadline, kRuntimeLimit));
  auto stacks = co_await std::move(requesting);
  SymbolRequest request{.stacks = std::move(stacks), .names = {}, .memory_map = {}};
  if (request.stacks.empty()) co_return Found{.text = "", .problem = "no thread answered"};
  for (const pid_t thread : thread_ids(pid)) request.names[thread] = thread_name(pid, thread);
  request.memory_map = memory_map(pid);
  std::string problem;
  if (request.stacks.size() < request.names.size()) {
    problem = std::to_string(request.names.size() - request.stacks.size()) + " of " +
              std::to_string(request.names.size()) + " threads did not answer";
  }
  auto naming = name_functions(std::move(request), std::move(target), deadline);
  Found found = co_await std::move(naming);
  if (!problem.empty())
    found.problem = problem + (found.problem.empty() ? "" : "; " + found.problem);
  co_return found;
}

asio::awaitable<StackTaker::Found> StackTaker::name_functions(SymbolRequest request,
                                                              TraceTarget target,
                                                              Deadline deadline) {
  const auto& path = plan_.symbol_reader.empty() ? containment_.program() : plan_.symbol_reader;
  const UniqueFd program(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd input(::memfd_create("stacks", MFD_CLOEXEC));
  const auto bytes = encode(request);
  std::string problem;
  if (program.get() < 0 ||
      ::pwrite(input.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    problem = std::strerror(errno);
  } else {
    const auto prepare = [&target] { return target.tool_start(); };
    auto running = tools_.run({.arguments = {symbol_reader_title()},
                               .program_fd = program.get(),
                               .standard_input = input.get(),
                               .output_bytes_max = kNamedStacksBytesMax + 1,
                               .cpu_seconds_max = kSymbolCpuSecondsMax},
                              prepare, deadline);
    const auto output = co_await std::move(running);
    if (auto text = named_stacks_in(output.text)) co_return Found{.text = *text, .problem = ""};
    problem = is_interrupted_          ? "interrupted"
              : output.problem.empty() ? "the symbol reader failed"
                                       : output.problem;
  }
  co_return Found{
      .text = describe_stacks(request.stacks, request.names, parse_mappings(request.memory_map)),
      .problem = "no names of functions: " + problem};
}

asio::awaitable<StackTaker::Found> StackTaker::run_tool(std::vector<std::string> arguments,
                                                        StacksIn stacks_of, TraceTarget target,
                                                        Deadline deadline) {
  const bool was_stopped = is_stopped(target.pid);
  const auto prepare = [&target] { return target.tool_start(); };
  auto running = tools_.run({.arguments = std::move(arguments),
                             .output_bytes_max = kStackBytesMax,
                             .data_bytes_max = ToolRunner::kDataBytesMax,
                             .cpu_seconds_max = ToolRunner::kCpuSecondsMax},
                            prepare, deadline);
  const auto output = co_await std::move(running);
  auto& worker = *target.worker;
  if (worker.has_ended) co_return Found{};  // in the meantime
  // A killed debugger may leave the process stopped.
  if (!was_stopped && is_stopped(target.pid)) worker.process.signal_group(SIGCONT);
  Found found{.text = stacks_of(output.text), .problem = output.problem};
  if (found.text.empty() && found.problem.empty()) found.problem = problem_in(output.text);
  co_return found;
}

/// A main thread that waits is not interrupted: its system call may be restarted, or wait where no
/// signal ends it. The frames of one that runs may change while they are read.
asio::awaitable<StackTaker::Found> StackTaker::run_py_spy(TraceTarget target, Deadline deadline) {
  std::vector<std::string> arguments = {plan_.py_spy, "dump", "--pid", std::to_string(target.pid)};
  Found found;
  if (process_state(target.pid).letter != 'R' || is_uninterruptible(target.pid)) {
    auto without_stop = arguments;
    without_stop.emplace_back("--nonblocking");
    auto running = run_tool(std::move(without_stop), stacks_in, target, deadline);
    found = co_await std::move(running);
    if (!found.text.empty() || is_uninterruptible(target.pid)) co_return found;
  }
  auto running = run_tool(std::move(arguments), stacks_in, std::move(target), deadline);
  co_return co_await std::move(running);
}

asio::awaitable<StackTaker::Found> StackTaker::call_python(TraceTarget target, Deadline deadline) {
  auto arguments = python_stack_arguments(plan_.gdb, target.pid, kStackBytesMax,
                                          parse_mappings(memory_map(target.pid)));
  auto running = run_tool(std::move(arguments), python_frames_in, std::move(target), deadline);
  Found found = co_await std::move(running);
  if (!found.text.empty()) found.problem.clear();
  co_return found;
}

asio::awaitable<StackTaker::Found> StackTaker::end_by_abort(TraceTarget target, Deadline deadline) {
  auto& worker = *target.worker;
  if (target.has_ended()) co_return Found{.text = "", .problem = kHasEnded};
  const auto text = std::make_shared<std::string>();
  worker.standard_error->read_now();
  worker.standard_error->copy_to(text, kStackBytesMax);
  worker.was_stopped = !worker.hang && !worker.has_recorded_error();
  prevent_core(target.pid);
  target.signal(SIGABRT);
  auto ending = wait_for_end(executor_, target.pid, deadline);
  co_await std::move(ending);
  worker.standard_error->read_now();
  worker.standard_error->copy_to(nullptr);
  co_return Found{.text = *text, .problem = text->empty() ? "Python printed nothing" : ""};
}

}  // namespace ddprun
