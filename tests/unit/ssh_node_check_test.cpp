// The check of all nodes' options on the machine that starts them.
#include "launcher/ssh/node_check.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/config_texts.hpp"

#include <doctest/doctest.h>

namespace ssh_node_check_test {

using namespace ddprun;
using namespace ddprun::ssh;
using namespace ddprun::test;

namespace {

constexpr const char* kFile = R"({"version": 1, "job": {"command": ["train"]},
  "nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
  "ssh": {"forward_variables": ["SHARED"]}})";

/// Problems if this machine is node `own`, or none of the nodes.
std::string found(const Strings& arguments, std::optional<std::size_t> own = std::nullopt,
                  const std::string& text = kFile, const Variables& variables = {},
                  const NodeCheck& how = {}) {
  const auto file = config_of(text);
  StarterFacts facts{.ssh = "/usr/bin/ssh",
                     .program = "/opt/ddprun",
                     .folder = "/work",
                     .own_node = own,
                     .variables = {},
                     .environment = lookup_in(variables),
                     .make_secret = [] { return std::string(64, 'a'); }};
  for (const auto& [name, value] : variables) facts.variables.push_back(name);
  const auto plan = plan_ssh(file, text, read_arguments(arguments), facts);
  if (const auto* problem = std::get_if<UsageProblem>(&plan)) FAIL(join(problem->problems, "\n"));
  auto check = how;
  check.environment = facts.environment;
  return join(problems_of_nodes(file, std::get<SshPlan>(plan), check), "\n");
}

}  // namespace

TEST_SUITE("ssh node check") {
  TEST_CASE("ssh check: a problem of all nodes is reported once") {
    CHECK(found({}).empty());
    CHECK(found({"--nnodes=1:3"}) ==
          "--nnodes=1:3: --rdzv_backend=static has a fixed number of nodes; c10d takes a range");
    CHECK(found({"--tee=5:3"}) == "--tee: there is no local rank 5; the only local rank is 0");
    CHECK(found({}, std::nullopt, kFile, {{"PET_NNODES", "1:3"}})
              .starts_with("PET_NNODES=1:3: --rdzv_backend=static has"));
  }

  TEST_CASE("ssh check: a problem of some nodes is reported with their names") {
    const std::string text = R"({"version": 1, "job": {"command": ["train"]},
      "nodes": [{"name": "a"}, {"name": "b", "nproc_per_node": 2}, {"name": "c"}]})";
    CHECK(found({"--tee=1:3"}, std::nullopt, text) ==
          "a, c: --tee: there is no local rank 1; the only local rank is 0");
    const std::string many = R"({"version": 1, "job": {"command": ["train"]},
      "nodes": [{"name": "a", "nproc_per_node": 2}, {"name": "n[1-9]"}]})";
    CHECK(found({"--tee=1:3"}, std::nullopt, many)
              .starts_with("n1, n2, n3 and 6 more: --tee: there is no local rank 1"));
  }

  TEST_CASE("ssh check: properties of this machine are checked only for its own node") {
    NodeCheck how;
    how.check = [](const LaunchOptions& options) -> std::variant<std::string, UsageProblem> {
      CHECK(options.from_config.own_node == 1);
      CHECK(options.program == "train");
      CHECK(options.secret_file.starts_with("/proc/self/fd/"));
      return UsageProblem{{"train: not found"}};
    };
    CHECK(found({}, 1, kFile, {}, how) == "b: train: not found");
    CHECK(found({}, std::nullopt, kFile, {}, how).empty());
  }

  TEST_CASE("ssh check: a value that depends on a node's own variable is checked on the node") {
    const std::string text = R"({"version": 1, "job": {"command": ["train"]},
      "nodes": [{"name": "a"}, {"name": "b"}],
      "logs": {"tee": "${SHARED}", "log_dir": "${OWN}"},
      "ssh": {"forward_variables": ["SHARED"]}})";
    CHECK(found({}, std::nullopt, text, {{"SHARED", "4:3"}}).empty());
    CHECK(found({}, std::nullopt, text, {{"SHARED", "4:3"}, {"OWN", "here"}}).empty());
    CHECK(contains(found({}, 0, text, {{"SHARED", "3"}}), "OWN is not set"));
  }

  TEST_CASE("ssh check: a missing program is reported only for a start") {
    const std::string text = R"({"version": 1, "nodes": [{"name": "a"}, {"name": "b"}]})";
    CHECK(contains(found({}, std::nullopt, text), "no program given"));
    NodeCheck how;
    how.needs_program = false;
    CHECK(found({}, std::nullopt, text, {}, how).empty());
  }
}

}  // namespace ssh_node_check_test
