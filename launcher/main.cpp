// The program: reads the command line, makes the plan and runs the agent.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/start_check.hpp"
#include "launcher/cli/command_line.hpp"
#include "launcher/cli/environment.hpp"
#include "launcher/cli/keygen_command.hpp"
#include "launcher/config/config_command.hpp"
#include "launcher/config/load_config.hpp"
#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/make_plan.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/inherited_state.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/report/agent_line.hpp"
#include "launcher/report/console_sink.hpp"
#include "launcher/report/error_file_sink.hpp"
#include "launcher/report/exit_code.hpp"
#include "launcher/report/json_lines_sink.hpp"
#include "launcher/ssh/agent_supervisor.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "launcher/ssh/ssh_request.hpp"
#include "launcher/ssh/starter.hpp"
#include "launcher/stacks/symbol_reader.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

/// Maximum time to write the rest of the workers' output to the console.
constexpr auto kDrainTimeout = std::chrono::seconds(5);

/// Passes each event to all sinks, in order. They outlive this object.
class Sinks : public EventSink {
 public:
  void add(EventSink& sink) { sinks_.push_back(&sink); }

  void take(const Event& event, std::chrono::system_clock::time_point when) override {
    for (auto* sink : sinks_) sink->take(event, when);
  }

 private:
  std::vector<EventSink*> sinks_;
};

bool is_colored_terminal(int fd) {
  return ::isatty(fd) != 0 && !process_environment("NO_COLOR");
}

/// Returns true if the terminal supports escape sequences that move the cursor.
bool can_move_cursor() {
  const auto name = process_environment("TERM").value_or("");
  return !name.empty() && name != "dumb";
}

/// Blocks signals: a signal during the start or the cleanup would end the program and leave files
/// and processes behind. `before` receives the previous mask; may be null.
void hold_signals(sigset_t* before) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, before);
}

/// Blocks signals for its lifetime.
class HeldSignals {
 public:
  HeldSignals() { hold_signals(&before_); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Prints the result of a command. Throws Error{Errc::system} on failure.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw_system_error("standard output", errno);
  }
  return kExitSuccess;
}

/// The reader of ddprun's own lines: this terminal, or the parent ddprun.
struct Reader {
  std::string mark{};
  int columns = terminal_columns(STDERR_FILENO, kColumnsWithoutTerminal);
};

int run(const LaunchPlan& plan, const std::string& level_name, LogLevel default_level,
        const Reader& reader) {
  if (const auto problem = system_problem()) throw Error(Errc::system, *problem);
  const auto level = parse_log_level(level_name);
  raise_limit_of_open_files();
  boost::asio::io_context context(1);
  Sinks sinks;
  const Log log = [&sinks](LogLevel log_level, std::string_view line) {
    if (log_level < LogLevel::warn) return;
    sinks.take(Warning{std::string(line)}, std::chrono::system_clock::now());
  };
  OutputRouter router(context.get_executor(), {.can_redraw = can_move_cursor()}, log);
  ConsoleSink console(
      ConsoleSettings{.level = level.value_or(default_level),
                      .node = plan.nodes ? plan.nodes->name : "0",
                      .columns = reader.columns,
                      .is_colored = is_colored_terminal(STDERR_FILENO),
                      .reporter = plan.nodes ? plan.options.from_config.reporter : "",
                      .mark = reader.mark},
      [&router](std::string_view lines) { router.write(lines); });
  sinks.add(console);
  std::optional<JsonLinesSink> events_file;
  const auto& events = plan.options.events;
  if (!events.empty()) sinks.add(events_file.emplace(events, 0, log));
  std::optional<ErrorFileSink> error_file;
  if (plan.error_file) sinks.add(error_file.emplace(*plan.error_file, log));
  if (!level && !level_name.empty()) {
    log(LogLevel::warn,
        "LOGLEVEL=" + level_name + " is ignored: must be DEBUG, INFO, WARNING, ERROR or CRITICAL");
  }
  std::optional<HeldSignals> held_signals(std::in_place);
  RunFolder folder(plan);
  Containment containment(
      {.temporary_folder = folder.is_kept() ? std::filesystem::path() : folder.path(),
       .temporary_folder_fd = folder.is_kept() ? -1 : folder.descriptor(),
       .program = "/proc/self/exe"},
      log);
  Agent agent(context.get_executor(), plan, folder, containment, router, sinks);
  held_signals.reset();
  int exit_code = kExitFailure;
  std::exception_ptr failure;
  auto main_task = [&]() -> boost::asio::awaitable<void> {
    const RunFinished finished = co_await agent.run();
    exit_code = finished.exit_code;
    co_await router.drain(Deadline::after(kDrainTimeout));
  };
  boost::asio::co_spawn(context, main_task, [&](std::exception_ptr error) {
    failure = std::move(error);
    context.stop();
  });
  context.run();
  // Permanently: the exit code is known, and the agent handles no more signals.
  hold_signals(nullptr);
  if (failure) std::rethrow_exception(failure);
  if (!router.has_lost_output()) return exit_code;
  return exit_code_without_output(exit_code);
}

int refuse(const UsageProblem& problem, const Invocation& invocation, const Reader& reader = {}) {
  const auto text = describe(problem, invocation.name);
  if (reader.mark.empty()) {
    std::fputs(text.c_str(), stderr);
  } else {
    for (const auto& line : split(text.substr(0, text.size() - 1), '\n')) {
      const auto refusal = AgentLine{.kind = AgentLine::Kind::refusal, .text = line};
      std::fputs(marked(reader.mark, refusal).c_str(), stderr);
    }
  }
  return kExitUsage;
}

/// Ends a command that starts no workers.
int end_command(const std::variant<std::string, UsageProblem>& answer,
                const Invocation& invocation) {
  const auto* problem = std::get_if<UsageProblem>(&answer);
  return problem == nullptr ? print(std::get<std::string>(answer)) : refuse(*problem, invocation);
}

/// Prints the text even if there are problems, since it may show their cause.
int end_command(const ConfigAnswer& answer, const Invocation& invocation) {
  print(answer.text);
  for (const auto& note : answer.notes) {
    std::fputs((invocation.name + ": " + printable(note) + "\n").c_str(), stderr);
  }
  return answer.problems.empty() ? kExitSuccess : refuse({answer.problems}, invocation);
}

std::variant<std::string, UsageProblem> summarize_run(const LaunchOptions& options) {
  std::vector<std::string> problems;
  auto plan = make_plan(options, gather_host_facts(process_environment), problems);
  check_start(plan, problems);
  if (!problems.empty()) return UsageProblem{std::move(problems)};
  return summarize_plan(plan);
}

/// Returns the output of `--ssh --dry_run`, or the problems that would prevent the start.
std::variant<std::string, UsageProblem> summarize_start(const std::vector<std::string>& arguments) {
  auto request = ssh::read_ssh_request(arguments, process_environment, {}, summarize_run, false);
  if (!request) return UsageProblem{{"config check: --version and --print_completion stand alone"}};
  if (auto* problem = std::get_if<UsageProblem>(&*request)) return std::move(*problem);
  return describe(std::get<ssh::SshRequest>(*request).plan);
}

int launch(const Invocation& invocation, const std::vector<std::string>& arguments,
           const ConfigLoader& load_config, const Reader& reader = {}) {
  const int columns = terminal_columns(STDOUT_FILENO, kColumnsWithoutTerminal);
  if (const auto answer = run_keygen_command(arguments, invocation, columns)) {
    return end_command(*answer, invocation);
  }
  OptionSources sources{.config = load_config};
  // torchrun ignores schedulers, and scripts that call it under one rely on that.
  if (invocation.mode == CompatMode::ddprun) {
    sources.scheduler = scheduler_reader(process_environment);
  }
  if (const auto answer =
          run_config_command(arguments, process_environment, sources, invocation,
                             {.here = summarize_run, .over_ssh = summarize_start}, columns)) {
    return end_command(*answer, invocation);
  }
  const auto command_line =
      parse_command_line(arguments, process_environment, columns, invocation, sources);
  if (const auto* help = std::get_if<HelpText>(&command_line)) {
    return print(help->text);
  }
  if (const auto* problem = std::get_if<UsageProblem>(&command_line)) {
    return refuse(*problem, invocation, reader);
  }
  const auto& options = std::get<LaunchOptions>(command_line);
  std::vector<std::string> problems;
  auto plan = make_plan(options, gather_host_facts(process_environment), problems);
  const bool is_complete = problems.empty();
  if (plan.nodes && !plan.options.secret_file.empty()) make_memory_private();
  check_start(plan, problems);
  if (options.dry_run && is_complete) print(describe_plan(plan));
  if (!problems.empty()) return refuse({with_origins(problems, options)}, invocation, reader);
  if (options.dry_run) return kExitSuccess;
  return run(plan, process_environment("LOGLEVEL").value_or(""),
             options.is_quiet ? LogLevel::warn : LogLevel::info, reader);
}

/// Runs `ddprun --ssh`, which starts agents but is not an agent.
int start_over_ssh(const ssh::SshRequest& request) {
  return request.is_dry ? print(describe(request.plan)) : run_over_ssh(request.plan);
}

/// Runs the agent of a node that was started over ssh.
int launch_on_node(const ssh::AgentStart& start) {
  const auto load = config_loader(process_environment, start.config_text);
  // The starter has chosen the node, and shows its name before each line.
  const ConfigLoader load_quietly = [&load](const ConfigRequest& request) {
    auto values = load(request);
    if (auto* loaded = std::get_if<ConfigValues>(&values)) loaded->settings.notes.clear();
    return values;
  };
  const Reader reader{.mark = start.mark, .columns = start.columns};
  try {
    return launch({}, start.arguments, load_quietly, reader);
  } catch (const Error& error) {
    if (error.code() != Errc::usage) throw;
    return refuse({{error.what()}}, {}, reader);
  }
}

int run_command(const Invocation& invocation, const std::vector<std::string>& arguments) {
  const bool is_for_ssh = invocation.mode == CompatMode::ddprun &&
                          arguments == std::vector<std::string>{ssh::kAgentCommand};
  if (is_for_ssh) return ssh::run_supervised_agent(launch_on_node);
  const auto over_ssh =
      ssh::read_ssh_request(arguments, process_environment, invocation, summarize_run);
  if (!over_ssh) return launch(invocation, arguments, config_loader(process_environment));
  if (const auto* problem = std::get_if<UsageProblem>(&*over_ssh)) {
    return refuse(*problem, invocation);
  }
  return start_over_ssh(std::get<ssh::SshRequest>(*over_ssh));
}

}  // namespace

}  // namespace ddprun

int main(int argc, char** argv) {
  if (argc > 0 && ddprun::is_guardian(argv[0])) return ddprun::run_guardian();
  if (argc > 0 && ddprun::is_symbol_reader(argv[0])) return ddprun::run_symbol_reader();
  ddprun::reset_inherited_state();
  ddprun::end_with_parent();
  const auto invocation = ddprun::invocation_of(argc > 0 ? argv[0] : "");
  const char* name = invocation.name.c_str();
  try {
    return ddprun::run_command(invocation, {argv + std::min(argc, 1), argv + argc});
  } catch (...) {
    const auto failure = std::current_exception();
    const auto text = ddprun::printable(ddprun::failure_text(failure));
    std::fprintf(stderr, "%s: %s\n", name, text.c_str());
    return ddprun::exit_code_of(failure);
  }
}
