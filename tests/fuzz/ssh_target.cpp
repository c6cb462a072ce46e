#include "tests/fuzz/ssh_target.hpp"

#include "launcher/report/agent_line.hpp"
#include "launcher/ssh/greeting_reader.hpp"
#include "launcher/ssh/ssh_plan.hpp"
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
constexpr const char* kMark =
    "\x1e"
    "m";

void decode_task(std::string_view bytes) {
  const auto task = decode_node_task(bytes);
  if (task) require(encode(*task) == bytes, "a task has one form");
}

/// Standard output of a node in pieces of this size, split at the greeting.
GreetingReader::Parts read_output(std::string_view bytes, std::size_t piece) {
  GreetingReader reader;
  GreetingReader::Parts all;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    auto parts = reader.read(bytes.substr(at, piece));
    all.noise += parts.noise;
    all.output += parts.output;
  }
  require(reader.has_greeting() || all.output.empty(), "no output before the greeting");
  return all;
}

/// Standard error of a node in pieces of this size: the agent's own lines, and all other bytes.
std::pair<std::vector<AgentLine>, std::string> read_error(std::string_view bytes,
                                                          std::size_t size) {
  std::pair<std::vector<AgentLine>, std::string> all;
  AgentLineReader reader(kMark);
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    for (auto& piece : reader.take(bytes.substr(at, size))) {
      if (piece.is_own) {
        all.first.push_back(std::move(piece.line));
      } else {
        all.second += piece.bytes;
      }
    }
  }
  all.second += reader.finish();
  return all;
}

void read_node(std::string_view bytes) {
  require(read_output(bytes, 3) == read_output(bytes, bytes.size() + 1),
          "output in pieces has the same meaning");
  require(read_error(bytes, 3) == read_error(bytes, bytes.size() + 1),
          "standard error in pieces has the same meaning");
}

/// A variable that the file may forward and use.
std::optional<std::string> forwarded_variable(const std::string& name) {
  if (name == "DATA") return "x$y";
  return std::nullopt;
}

std::size_t nodes_in(const SshPlan& plan) {
  return plan.targets.size() + (plan.own ? 1 : 0);
}

void check_plan(const SshPlan& plan) {
  require(nodes_in(plan) >= plan.nodes_min && nodes_in(plan) <= plan.names.size(),
          "as many nodes are started as can take part");
  require(!plan.host || *plan.host < plan.names.size(), "the host is one of the nodes");
  require(describe(plan).find(kSecret) == std::string::npos, "a plan does not show its secret");
  require(decode_node_task(encode(plan.task)) == plan.task, "a task arrives as it was sent");
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
                     .make_secret = [] { return kSecret; }};
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
  switch (input.front() % 3) {
    case 0:
      return decode_task(bytes);
    case 1:
      return read_node(bytes);
    default:
      return make_plan(bytes);
  }
}

}  // namespace ddprun::fuzz
