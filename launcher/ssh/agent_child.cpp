#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/ssh/child.hpp"
#include "launcher/ssh/child_process.hpp"
#include "launcher/ssh/command.hpp"
#include "launcher/ssh/memory_file.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

std::string name_in(const std::string& variable) {
  return variable.substr(0, variable.find('=') + 1);
}

/// This process' environment with `changes` laid over it.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  auto environment = own_environment();
  for (const auto& change : changes) {
    const auto name = name_in(change);
    std::erase_if(environment, [&](const auto& variable) { return variable.starts_with(name); });
    environment.push_back(change);
  }
  return environment;
}

class AgentChild : public Child {
 public:
  AgentChild(const asio::any_io_executor& executor, ReportSink& sink, const Target& target,
             const RelayTask& task)
      : process_(executor), sink_(sink), target_(target), folder_(task.folder) {
    auto agent = task.agent;
    agent.arguments.insert(agent.arguments.begin(), "--node_name=" + target.name);
    bytes_ = encode(agent);
    environment_ = environment_with(task.variables);
  }

  asio::awaitable<void> run() override {
    auto input = memory_file("ddprun-task", std::exchange(bytes_, {}));
    if (input.get() < 0) {
      report(NodeReport::Kind::not_started, "its task: " + std::string(std::strerror(errno)));
      co_return;
    }
    const ProcessRequest request{.program = "/proc/self/exe",
                                 .arguments = {"ddprun", kAgentWord},
                                 .environment = environment_,
                                 .folder = folder_};
    const auto failure = co_await process_.start(request, input.get());
    // The agent has a descriptor of its own, and empties the file when it has read it.
    input = UniqueFd();
    if (failure) {
      report(NodeReport::Kind::not_started, describe_start_failure(*failure, "ddprun", folder_));
      co_return;
    }
    report(NodeReport::Kind::started, "");
    const auto pass_on = [this](NodeReport::Kind kind) {
      return [this, kind](std::string_view bytes) { return take(kind, bytes); };
    };
    auto running = process_.run(pass_on(NodeReport::Kind::standard_output),
                                pass_on(NodeReport::Kind::standard_error));
    const int exit_code = co_await std::move(running);
    sink_.take({.kind = NodeReport::Kind::ended, .node = target_.node, .exit_code = exit_code});
  }

  void signal(int number) override { process_.signal(number); }
  void stop_calling() override {}
  void hang_up() override { process_.signal(SIGTERM); }
  void kill() override { process_.signal(SIGKILL); }

 private:
  asio::awaitable<void> take(NodeReport::Kind kind, std::string_view bytes) {
    report(kind, std::string(bytes));
    co_await sink_.room();
  }

  void report(NodeReport::Kind kind, std::string text) {
    sink_.take({.kind = kind, .node = target_.node, .text = std::move(text)});
  }

  ChildProcess process_;
  ReportSink& sink_;
  const Target target_;
  const std::string folder_;
  std::string bytes_;
  std::vector<std::string> environment_;
};

}  // namespace

std::unique_ptr<Child> make_agent_child(asio::any_io_executor executor, ReportSink& sink,
                                        const Target& target, const RelayTask& task) {
  return std::make_unique<AgentChild>(executor, sink, target, task);
}

}  // namespace ddprun::ssh
