#include "tests/fuzz/ssh_target.hpp"

#include "launcher/ssh/node_report.hpp"
#include "launcher/ssh/ssh_plan.hpp"
#include "launcher/ssh/task.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/fuzz/promise.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::fuzz {

namespace {

using namespace ssh;

constexpr const char* kSecret = "0123456789abcdef";

template <typename Task>
void write_again(const std::optional<Task>& task, std::string_view bytes) {
  if (task) require(encode(*task) == bytes, "a task has one form");
}

/// All that a reader makes of what a machine says.
struct Heard {
  std::vector<NodeReport> reports{};
  std::string noise{};
  bool has_greeting = false;
  bool is_broken = false;

  bool operator==(const Heard&) const = default;
};

Heard hear(std::string_view bytes, std::size_t piece) {
  ReportReader reader;
  Heard heard;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    for (auto& report : reader.take(bytes.substr(at, piece))) {
      heard.reports.push_back(std::move(report));
    }
    heard.noise += reader.take_noise();
  }
  heard.has_greeting = reader.has_greeting();
  heard.is_broken = reader.is_broken();
  return heard;
}

void read_reports(std::string_view bytes) {
  const auto heard = hear(bytes, bytes.size() + 1);
  require(hear(bytes, 3) == heard, "pieces mean what the whole means");
  require(heard.has_greeting || heard.reports.empty(), "nothing is heard before the greeting");
  std::string written = heard.noise;
  if (heard.has_greeting) written += kGreeting;
  for (const auto& report : heard.reports) written += encode(report);
  require(bytes.substr(0, written.size()) == written, "a report has one form");
}

/// One variable: one that the file may forward and use.
std::optional<std::string> forwarded_variable(const std::string& name) {
  if (name == "DATA") return "x$y";
  return std::nullopt;
}

std::size_t nodes_in(const SshPlan& plan) {
  return plan.task.targets.size() + (plan.own ? 1 : 0);
}

void check_plan(const SshPlan& plan) {
  require(nodes_in(plan) >= plan.nodes_min && nodes_in(plan) <= plan.names.size(),
          "as many nodes are started as can take part");
  require(!plan.host || *plan.host < plan.names.size(), "the host is one of the nodes");
  require(describe(plan).find(kSecret) == std::string::npos, "a plan does not tell its secret");
  if (plan.task.targets.empty()) return;
  require(decode_relay_task(encode(plan.task)) == plan.task, "a task arrives as it was sent");
}

void make_plan(std::string_view input) {
  if (input.find(kSecret) != input.npos) return;
  const auto parts = split(input, '\0');
  const auto read = read_config("fuzz", parts.front());
  if (!std::holds_alternative<ConfigFile>(read)) return;
  StarterFacts facts{.ssh = "/usr/bin/ssh",
                     .program = "/opt/ddprun",
                     .folder = "/work",
                     .own_node = std::nullopt,
                     .variables = {"DATA"},
                     .environment = forwarded_variable,
                     .new_secret = kSecret};
  for (const bool is_node : {false, true}) {
    if (is_node) facts.own_node = 0;
    const auto words = read_arguments({parts.begin() + 1, parts.end()});
    const auto made = plan_ssh(std::get<ConfigFile>(read), parts.front(), words, facts);
    if (const auto* plan = std::get_if<SshPlan>(&made)) {
      check_plan(*plan);
    } else {
      require(!std::get<UsageProblem>(made).problems.empty(), "a refusal has problems");
    }
  }
}

}  // namespace

void run_ssh(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const std::string bytes(input.begin() + 1, input.end());
  switch (input.front() % 4) {
    case 0:
      return write_again(decode_agent_task(bytes), bytes);
    case 1:
      return write_again(decode_relay_task(bytes), bytes);
    case 2:
      return read_reports(bytes);
    default:
      return make_plan(bytes);
  }
}

}  // namespace ddprun::fuzz
