// A configuration file on one node: identification of the node, and its effective values.
#include "launcher/config/identity.hpp"
#include "tests/support/config_texts.hpp"

#include <doctest/doctest.h>

namespace resolve_config_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

const char* const kTwoNodes = R"({"version": 1,
"job": {"command": ["${PROGRAM:-trainer}", "--out=${node.name}/${local_rank}"]},
"rendezvous": {"rdzv_backend": "c10d"},
"defaults": {"nproc_per_node": 2, "environment": {"A": "1", "B": "${node.index}", "C": null}},
"nodes": [{"name": "gpu1", "address": "10.0.0.1"},
          {"name": "gpu2.lan", "address": "10.0.0.2", "nproc_per_node": "${SLOTS:-4}",
           "environment": {"A": "${node.address}", "B": null}}]})";

/// The name found and how, or the problem.
std::string found_in(const std::string& text, NodeClues clues, const Variables& variables = {}) {
  clues.environment = lookup_in(variables);
  const auto file = config_of(text);
  const auto found = find_node(file, clues);
  if (const auto* problem = std::get_if<UsageProblem>(&found)) return problem->problems.front();
  const auto& node = std::get<FoundNode>(found);
  return node.name + ": " + node.how;
}

NodeClues host(const std::string& name, const std::vector<std::string>& addresses = {}) {
  return {.host_names = {name}, .addresses = addresses};
}

/// The result of a command line with --config, with `text` as the file and node 1 as this one.
CommandLine with_config(const Strings& arguments, const Variables& variables,
                        const std::string& text) {
  Strings all = {"--config=c.json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ConfigLoader loader = [&](const ConfigRequest& request) {
    CHECK(request.file == "c.json");
    return resolved(text, 1, variables);
  };
  return parse_command_line(all, lookup_in(variables), 80, {}, {.config = loader});
}

}  // namespace

TEST_SUITE("configuration of a node") {
  TEST_CASE("node configuration: a node's entry overrides the defaults") {
    const auto first = values_of(kTwoNodes, 0);
    CHECK(value_in(first, "nproc_per_node") == "2");
    CHECK(first.command == Strings{"trainer", "--out=gpu1/${local_rank}"});
    CHECK(first.settings.environment ==
          std::vector<EnvironmentChange>{{"A", "1"}, {"B", "0"}, {"C", std::nullopt}});
    const auto second = values_of(kTwoNodes, 1, {{"PROGRAM", "./train"}});
    CHECK(value_in(second, "nproc_per_node") == "4");
    CHECK(second.command.front() == "./train");
    CHECK(second.settings.environment == std::vector<EnvironmentChange>{{"C", std::nullopt},
                                                                        {"A", "10.0.0.2"},
                                                                        {"B", std::nullopt}});
    CHECK(value_in(values_of(kTwoNodes, 1, {{"SLOTS", "7"}}), "nproc_per_node") == "7");
  }

  TEST_CASE("node configuration: each value is stored with its position and its variables") {
    const auto values = values_of(kTwoNodes, 1);
    const auto where = [&](const char* name) { return values.options.at(find_option(name)).where; };
    CHECK(where("nproc_per_node") == "c.json:6:73: nodes[1].nproc_per_node (${SLOTS:-4})");
    CHECK(where("rdzv_backend") == "c.json:3:32: rendezvous.rdzv_backend");
    CHECK(where("local_addr") == "c.json:6:11: nodes[1].address");
  }

  TEST_CASE("node configuration: rendezvous settings are derived from the nodes' entries") {
    const auto values = values_of(kTwoNodes, 1);
    CHECK(value_in(values, "nnodes") == "2");
    CHECK(value_in(values, "node_rank") == "1");
    CHECK(value_in(values, "local_addr") == "10.0.0.2");
    CHECK(value_in(values, "rdzv_endpoint") == "10.0.0.1");
    CHECK(value_in(values, "rdzv_id") == "(none)");
    REQUIRE(values.settings.notes.size() == 1);
    CHECK(values.settings.notes[0] ==
          "this machine is node gpu2.lan (2 of 2) of c.json: the test says so");
  }

  TEST_CASE("node configuration: explicit values are not replaced by derived ones") {
    const auto given = values_of(
        R"({"version": 1, "rendezvous": {"nnodes": "1:2", "rdzv_endpoint": "c:1"},
            "nodes": [{"name": "a[1-2]", "local_addr": "d"}]})");
    CHECK(value_in(given, "nnodes") == "1:2");
    CHECK(value_in(given, "rdzv_endpoint") == "c:1");
    CHECK(value_in(given, "local_addr") == "d");
    const auto elsewhere = values_of(
        R"({"version": 1, "rendezvous": {"master_addr": "c"}, "nodes": [{"name": "a[1-2]"}]})");
    CHECK(value_in(elsewhere, "rdzv_endpoint") == "(none)");
    const auto six = values_of(
        R"({"version": 1, "nodes": [{"name": "a", "address": "fd00::1"}, {"name": "b"}]})", 1);
    CHECK(value_in(six, "rdzv_endpoint") == "[fd00::1]");
    const auto alone =
        values_of(R"({"version": 1, "nodes": [{"name": "a", "address": "10.0.0.1"}]})");
    CHECK(alone.options.empty());
    CHECK(values_of(R"({"version": 1})").options.empty());
  }

  TEST_CASE("node configuration: derived values respect nnodes and backend of the arguments") {
    const auto with = [](const std::string& backend, const Strings& arguments, std::size_t index) {
      const auto text = R"({"version": 1, "rendezvous": {"rdzv_backend": ")" + backend +
                        R"("}, "nodes": [{"name": "n[0-9]"}]})";
      auto values = resolved(text, index, {}, read_arguments(arguments).given);
      return std::get<ConfigValues>(std::move(values));
    };
    // A single node needs no settings for several nodes.
    CHECK(value_in(with("c10d", {"--nnodes=1"}, 7), "rdzv_endpoint") == "(none)");
    CHECK(value_in(with("c10d", {"--nnodes=1"}, 7), "node_rank") == "(none)");
    // Any two of ten nodes: their ranks are agreed on, or must be given.
    CHECK(value_in(with("c10d", {"--nnodes=2"}, 7), "node_rank") == "(none)");
    CHECK(value_in(with("c10d", {"--nnodes=2"}, 7), "rdzv_endpoint") == "n0");
    CHECK(value_in(with("static", {"--nnodes=2"}, 7), "node_rank") == "7");
    CHECK(value_in(with("c10d", {"--nnodes=1:10"}, 7), "node_rank") == "7");
    CHECK(value_in(with("c10d", {"--master_addr=m"}, 7), "rdzv_endpoint") == "(none)");
  }

  TEST_CASE("node configuration: an invalid value after expansion is reported with its position") {
    const auto wrong = resolved(kTwoNodes, 1, {{"SLOTS", "many"}});
    CHECK(
        std::get<UsageProblem>(wrong).problems ==
        Strings{"c.json:6:73: nodes[1].nproc_per_node: \"many\" is neither a number from 1 to 1024 "
                "nor auto, cpu or gpu"});
    const auto unset = resolved(R"({"version": 1, "logs": {"log_dir": "${SCRATCH}/x"},
      "job": {"role": "${ROLE:?which part does it play}", "module": "${MODULE:-true}"}})");
    const auto& problems = std::get<UsageProblem>(unset).problems;
    REQUIRE(problems.size() == 2);
    CHECK(contains(problems[0], "c.json:1:36: logs.log_dir: SCRATCH is not set;"));
    CHECK(problems[1] == "c.json:2:23: job.role: ROLE is not set: which part does it play");
  }

  TEST_CASE("node configuration: hash and outline are computed from the unexpanded file") {
    const auto one = values_of(kTwoNodes, 0).settings;
    const auto other = values_of(kTwoNodes, 1, {{"SLOTS", "7"}}).settings;
    const auto file = parse_json(kTwoNodes).root;
    CHECK(one.hash == config_hash(canonical_json(file)));
    CHECK(other.hash == one.hash);
    CHECK(one.outline == config_outline(file));
    CHECK(other.outline == one.outline);
  }
}

TEST_SUITE("precedence of a configuration file") {
  TEST_CASE("configuration precedence: arguments override variables that override the file") {
    const auto options = [](const Strings& arguments, const Variables& variables) {
      const auto parsed = with_config(arguments, variables, kTwoNodes);
      if (const auto* problem = std::get_if<UsageProblem>(&parsed)) FAIL(describe(*problem));
      return std::get<LaunchOptions>(parsed);
    };
    CHECK(options({}, {}).nproc_per_node.number == 4);
    CHECK(options({}, {{"PET_NPROC_PER_NODE", "5"}}).nproc_per_node.number == 5);
    CHECK(options({"--nproc_per_node=6"}, {{"PET_NPROC_PER_NODE", "5"}}).nproc_per_node.number ==
          6);
    CHECK(options({}, {}).max_restarts == 0);
    CHECK(options({}, {}).program == "trainer");
    CHECK(options({}, {}).program_arguments == Strings{"--out=gpu2.lan/${local_rank}"});
    CHECK(options({"other", "x"}, {}).program == "other");
    CHECK(options({"other", "x"}, {}).program_arguments == Strings{"x"});
    CHECK(options({}, {}).from_config.hash.size() == 16);
  }

  TEST_CASE("configuration precedence: a file without a command requires a program argument") {
    const auto none = with_config({}, {}, R"({"version": 1, "nodes": [{"name": "a[1-2]"}]})");
    CHECK(contains(describe(std::get<UsageProblem>(none)), "no program given"));
    const auto wrong = with_config({}, {{"SLOTS", "many"}}, kTwoNodes);
    CHECK(std::get<UsageProblem>(wrong).problems.size() == 1);
  }

  TEST_CASE("configuration precedence: --node_name but not DDPRUN_NODE requires a file") {
    CHECK(contains(problems_of({"--node_name=a", "x.py"}),
                   "--node_name: names a node in the --config file"));
    CHECK(options_of({"x.py"}, {{"DDPRUN_NODE", "a"}}).program == "x.py");
  }
}

TEST_SUITE("finding the own node") {
  TEST_CASE("own node: a name or rank that is given precedes host name and address") {
    auto clues = host("gpu1", {"10.0.0.2"});
    CHECK(found_in(kTwoNodes, clues) == "gpu1: its host name is gpu1");
    clues.node_rank = GivenValue{"1", "PET_NODE_RANK=1"};
    CHECK(found_in(kTwoNodes, clues) == "gpu2.lan: set by PET_NODE_RANK=1");
    clues.node_rank.reset();
    clues.node_name = GivenValue{"gpu2.lan", "--node_name=gpu2.lan"};
    CHECK(found_in(kTwoNodes, clues) == "gpu2.lan: set by --node_name=gpu2.lan");
    const auto stranger = host("pod-7", {"192.168.0.1", "10.0.0.2"});
    CHECK(found_in(kTwoNodes, stranger, {{"SLURM_NODEID", "0"}}) ==
          "gpu2.lan: an interface has the address 10.0.0.2");
    CHECK(found_in(kTwoNodes, host("pod-7"), {{"SLURM_NODEID", "1"}}) ==
          "gpu2.lan: set by SLURM_NODEID=1");
    CHECK(
        found_in(kTwoNodes, host("pod-7"), {{"SLURM_NODEID", ""}, {"JOB_COMPLETION_INDEX", "0"}}) ==
        "gpu1: set by JOB_COMPLETION_INDEX=0");
    // An index within a node, not among nodes.
    CHECK(contains(found_in(kTwoNodes, host("x"), {{"OMPI_COMM_WORLD_NODE_RANK", "0"}}),
                   "none of its nodes"));
  }

  TEST_CASE("own node: a host name matches in full or up to its first dot or as an address") {
    CHECK(found_in(kTwoNodes, host("gpu1.lan")) == "gpu1: its host name is gpu1.lan");
    CHECK(found_in(kTwoNodes, host("gpu2")) == "gpu2.lan: its host name is gpu2");
    const char* const kByAddress =
        R"({"version": 1, "nodes": [{"name": "a", "address": "h1"}, {"name": "h1.x"}]})";
    CHECK(found_in(kByAddress, host("h1")) == "a: its host name is h1");
  }

  TEST_CASE("own node: a missing or ambiguous match is reported with the compared values") {
    CHECK(found_in(kTwoNodes, host("login", {"10.0.0.9"})) ==
          "c.json: none of its nodes is this machine: its host names are login, its addresses "
          "10.0.0.9; the file lists gpu1 (10.0.0.1), gpu2.lan (10.0.0.2); use --node_name to "
          "select this node's entry");
    CHECK(found_in("{\"version\": 1, \"nodes\": [{\"name\": \"a.x\"},\n{\"name\": \"a.y\"}]}",
                   host("a")) ==
          "c.json: this machine may be any of a.x (line 1), a.y (line 2); use --node_name to "
          "select this node's entry");
    CHECK(contains(found_in(R"({"version": 1, "nodes": [{"name": "n[1-100]"}]})", host("x")),
                   "n1, n2, n3, n4, n5, n6, n7, n8, and 92 more"));
  }

  TEST_CASE("own node: unknown or contradictory names and ranks are rejected") {
    auto clues = host("gpu1");
    clues.node_name = GivenValue{"gpu2.lam", "DDPRUN_NODE=gpu2.lam"};
    CHECK(found_in(kTwoNodes, clues) ==
          "DDPRUN_NODE=gpu2.lam: c.json lists no such node; did you mean gpu2.lan?");
    clues.node_name = GivenValue{"unlike", "--node_name=unlike"};
    CHECK(found_in(kTwoNodes, clues) ==
          "--node_name=unlike: c.json lists no such node; it lists gpu1, gpu2.lan");
    clues.node_name = GivenValue{"gpu1", "--node_name=gpu1"};
    clues.node_rank = GivenValue{"1", "PET_NODE_RANK=1"};
    CHECK(found_in(kTwoNodes, clues) ==
          "--node_name=gpu1 is node 0 of c.json, which PET_NODE_RANK=1 contradicts; remove one of "
          "them");
    clues.node_name.reset();
    clues.node_rank = GivenValue{"2", "--node_rank=2"};
    CHECK(found_in(kTwoNodes, clues) ==
          "--node_rank=2: is not an integer from 0 to 1, the indices of the nodes of c.json");
  }

  TEST_CASE("own node: a file without nodes matches every machine") {
    CHECK(found_in(R"({"version": 1})", host("gpu7.lan")) == "gpu7: ");
    auto clues = host("gpu7");
    clues.node_name = GivenValue{"a", "--node_name=a"};
    CHECK(found_in(R"({"version": 1})", clues) == "--node_name=a: c.json names no nodes");
  }
}

}  // namespace resolve_config_test
