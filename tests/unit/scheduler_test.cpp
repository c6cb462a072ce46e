// Effects of Slurm's and Kubernetes' variables on a run: tables of environments like the real ones.
#include "launcher/config/scheduler.hpp"

#include "rendezvous/base/text.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/plans.hpp"

#include <doctest/doctest.h>

namespace scheduler_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Like a task of `srun --ntasks-per-node=1` on two nodes (Slurm 22.05), with changes.
Variables slurm(const Variables& changes = {}) {
  Variables variables = {{"SLURM_JOB_ID", "1234"},
                         {"SLURM_JOB_NODELIST", "gpu[001-002]"},
                         {"SLURM_JOB_NUM_NODES", "2"},
                         {"SLURM_NNODES", "2"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_NTASKS_PER_NODE", "1"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NODELIST", "gpu[001-002]"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                         {"SLURM_TASKS_PER_NODE", "1(x2)"}};
  for (const auto& [name, value] : changes) variables[name] = value;
  std::erase_if(variables, [](const auto& variable) { return variable.second.empty(); });
  return variables;
}

/// The script of sbatch, which runs on the first node.
Variables batch_script() {
  return slurm({{"SLURM_STEP_ID", ""},
                {"SLURM_STEP_NODELIST", ""},
                {"SLURM_STEP_NUM_NODES", ""},
                {"SLURM_STEP_TASKS_PER_NODE", ""},
                {"SLURM_TASKS_PER_NODE", "2(x2)"},
                {"SLURM_NODEID", "0"}});
}

/// A command started by salloc on the machine where it was typed.
Variables behind_salloc(const Variables& changes = {}) {
  auto variables = batch_script();
  variables.erase("SLURM_NODEID");
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

Variables with_step(const std::string& nodes, const std::string& list, const std::string& tasks) {
  return slurm({{"SLURM_STEP_NUM_NODES", nodes},
                {"SLURM_STEP_NODELIST", list},
                {"SLURM_STEP_TASKS_PER_NODE", tasks}});
}

struct Answer {
  std::string options;  ///< "nnodes=2 node_rank=1", by name
  std::string notes;
  std::string problem;
};

Answer answer(const Strings& arguments, const Variables& variables,
              const std::string& host_name = "node") {
  const auto parsed = read_arguments(arguments);
  const auto lookup = lookup_in(variables);
  const auto given = gather_values(parsed, lookup, {}).given;
  const auto values =
      values_from_scheduler({.environment = lookup, .given = given, .host_name = host_name});
  if (const auto* problem = std::get_if<UsageProblem>(&values)) {
    return {"", "", join(problem->problems, "\n")};
  }
  const auto& found = std::get<ConfigValues>(values);
  std::map<std::string, std::string> sorted;
  for (const auto& [option, value] : found.options) sorted[std::string(option->name)] = value.value;
  Strings options;
  for (const auto& [name, value] : sorted) options.push_back(name + "=" + value);
  return {join(options, " "), join(found.settings.notes, "\n"), ""};
}

struct Case {
  Strings arguments;
  Variables variables;
  std::string options;
};

const Case kSlurm[] = {
    {{},
     slurm(),
     "local_addr=gpu002 master_addr=gpu001 master_port=16234 nnodes=2 node_rank=1 "
     "rdzv_id=slurm-1234.0"},
    {{"--rdzv_conf=join_timeout=9", "--max_restarts=3"},
     slurm({{"SLURM_STEP_ID", "3"}, {"SLURM_NODEID", "0"}}),
     "local_addr=gpu001 master_addr=gpu001 master_port=19261 nnodes=2 node_rank=0 "
     "rdzv_id=slurm-1234.3"},
    {{},
     slurm({{"SLURM_JOB_NUM_NODES", "5"},
            {"SLURM_STEP_NUM_NODES", "5"},
            {"SLURM_STEP_NODELIST", "gpu[001-003,7],login1"},
            {"SLURM_STEP_TASKS_PER_NODE", "1(x5)"},
            {"SLURM_NODEID", "4"},
            {"SLURM_JOB_ID", "28765"}}),
     "local_addr=login1 master_addr=gpu001 master_port=23765 nnodes=5 node_rank=4 "
     "rdzv_id=slurm-28765.0"},
    {{},
     slurm({{"SLURM_GPUS_ON_NODE", "8"}}),
     "local_addr=gpu002 master_addr=gpu001 master_port=16234 nnodes=2 node_rank=1 "
     "nproc_per_node=8 rdzv_id=slurm-1234.0"},
    {{"--nproc_per_node=2"},
     slurm({{"SLURM_GPUS_ON_NODE", "8"}}),
     "local_addr=gpu002 master_addr=gpu001 master_port=16234 nnodes=2 node_rank=1 "
     "rdzv_id=slurm-1234.0"},
    {{},
     slurm({{"SLURM_STEP_NODELIST", ""}}),
     "local_addr=gpu002 master_addr=gpu001 master_port=16234 nnodes=2 node_rank=1 "
     "rdzv_id=slurm-1234.0"},
    // One node; not in a step; nodes given otherwise; a worker of another run.
    {{}, slurm({{"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_STEP_NUM_NODES", "1"}}), ""},
    {{}, batch_script(), ""},
    {{}, with_step("1", "gpu001", "1"), ""},
    {{"--standalone"}, slurm(), ""},
    {{"--nnodes=1"}, slurm(), ""},
    {{"--rdzv_backend=c10d"}, slurm(), ""},
    {{"--master_addr=a"}, slurm(), ""},
    {{}, slurm({{"PET_NODE_RANK", "1"}}), ""},
    {{}, slurm({{"TORCHELASTIC_RUN_ID", "x"}}), ""},
    {{}, slurm({{"SLURM_HET_SIZE", "2"}}), ""},
    {{"--standalone"}, with_step("2", "gpu[001-002]", "4(x2)"), ""},
};

struct Refusal {
  Variables variables;
  std::string text;
};

const Refusal kRefusals[] = {
    {with_step("2", "gpu[001-002]", "4(x2)"),
     "SLURM_STEP_TASKS_PER_NODE=4(x2): several ddprun processes were started on one node"},
    {with_step("2", "gpu[001-002]", "1,2"), "use srun --ntasks-per-node=1"},
    {with_step("2", "gpu[001-002]", "12(x2)"), "use --standalone to run on this node only"},
    {with_step("2", "gpu[001-00", "1(x2)"), "SLURM_STEP_NODELIST=gpu[001-00: has an unmatched '['"},
    {with_step("2", "gpu[1-999999]", "1(x2)"), "stands for more than 16384 names"},
    {with_step("2", "gpu[001-003]", "1(x2)"), "names 3 nodes, SLURM_STEP_NUM_NODES 2"},
    {slurm({{"SLURM_NODEID", "2"}}), "SLURM_NODEID=2: there are 2 nodes"},
    {slurm({{"SLURM_NODEID", "x"}}), "SLURM_NODEID=x: is not an integer"},
    {slurm({{"SLURM_NODEID", ""}}), "SLURM_NODEID is not set"},
    {slurm({{"SLURM_JOB_ID", "many"}}), "SLURM_JOB_ID=many: is not an integer"},
    {slurm({{"SLURM_JOB_NUM_NODES", "two"}}), "SLURM_JOB_NUM_NODES=two: is not an integer"},
};

const Variables kIndex = {{"JOB_COMPLETION_INDEX", "1"}};
const Variables kTwoPods = {{"JOB_COMPLETION_INDEX", "1"}, {"PET_NNODES", "2"}};
constexpr const char* kPod = "train-1.peers.ml.svc.cluster.local";

const Case kKubernetes[] = {
    {{}, kTwoPods, "master_addr=train-0.peers.ml.svc.cluster.local node_rank=1 rdzv_id=train"},
    {{"--nnodes=1:4", "--rdzv_backend=c10d"},
     kIndex,
     "node_rank=1 rdzv_endpoint=train-0.peers.ml.svc.cluster.local rdzv_id=train"},
    {{"--nnodes=2", "--master_addr=a", "--rdzv_id=b"}, kIndex, "node_rank=1"},
    {{"--nnodes=2", "--node_rank=0", "--rdzv_endpoint=a", "--rdzv_id=b"}, kIndex, ""},
    {{}, kIndex, ""},
    {{"--nnodes=1"}, kIndex, ""},
    {{"--standalone"}, kTwoPods, ""},
    {{"--nnodes=2"}, {}, ""},
};

}  // namespace

TEST_SUITE("scheduler") {
  TEST_CASE("scheduler: options of several nodes follow from a Slurm step with a task per node") {
    for (const auto& entry : kSlurm) {
      CAPTURE(entry.options);
      const auto found = answer(entry.arguments, entry.variables);
      CHECK(found.problem == "");
      CHECK(found.options == entry.options);
    }
  }

  TEST_CASE("scheduler: derived values are noted in one line with their variables") {
    CHECK(answer({}, slurm({{"SLURM_GPUS_ON_NODE", "4"}})).notes ==
          "from Slurm: node 1 of 2, gpu002 (SLURM_NODEID, SLURM_STEP_NODELIST=gpu[001-002]), "
          "meeting at gpu001:16234 as run slurm-1234.0 (SLURM_JOB_ID, SLURM_STEP_ID), 4 workers "
          "(SLURM_GPUS_ON_NODE)");
  }

  TEST_CASE("scheduler: a run on only one node of a Slurm job causes a note with a remedy") {
    const std::string hint =
        "Slurm gave 2 nodes to job 1234, of which this run uses one; "
        "'srun --ntasks-per-node=1 ddprun ...' uses all";
    CHECK(answer({}, batch_script()).notes == hint);
    CHECK(answer({}, with_step("1", "gpu001", "1")).notes == hint);
    CHECK(answer({"--standalone"}, batch_script()).notes == "");
    CHECK(answer({}, slurm({{"SLURM_JOB_NUM_NODES", "1"}})).notes == "");
  }

  TEST_CASE("scheduler: a run started by salloc outside the job's nodes causes a note") {
    const std::string hint =
        " to job 1234, but this run is on none of them: it was started on login.lan without srun; "
        "'srun --ntasks-per-node=1 ddprun ...' uses all";
    CHECK(answer({}, behind_salloc(), "login.lan").notes == "Slurm gave 2 nodes" + hint);
    CHECK(answer({}, behind_salloc({{"SLURM_JOB_NUM_NODES", "1"}}), "login.lan").notes ==
          "Slurm gave 1 node" + hint);
    CHECK(answer({"--standalone"}, behind_salloc(), "login.lan").notes == "");
    // Typed on a node of the job, or on a node whose host name Slurm does not use.
    const std::string one = "Slurm gave 2 nodes to job 1234, of which this run uses one; ";
    CHECK(answer({}, behind_salloc(), "gpu002.lan").notes.rfind(one, 0) == 0);
    CHECK(answer({}, behind_salloc({{"SLURMD_NODENAME", "gpu001"}}), "pod-7").notes.rfind(one, 0) ==
          0);
  }

  TEST_CASE("scheduler: contradictory Slurm variables are reported by name") {
    for (const auto& refusal : kRefusals) {
      CAPTURE(refusal.text);
      CHECK(contains(answer({}, refusal.variables).problem, refusal.text));
    }
  }

  TEST_CASE("scheduler: the port for any Slurm job number is in the documented range") {
    for (const char* job : {"0", "9999", "10000", "1999999999"}) {
      const auto options =
          answer({}, slurm({{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", "1999999999"}})).options;
      const auto begin = options.find("master_port=") + 12;
      const int port = std::stoi(options.substr(begin));
      CHECK(port >= kSlurmPortFirst);
      CHECK(port < kSlurmPortFirst + kSlurmPorts);
    }
  }

  TEST_CASE("scheduler: rank and master address follow from a Kubernetes Indexed Job") {
    for (const auto& entry : kKubernetes) {
      CAPTURE(entry.options);
      CHECK(answer(entry.arguments, entry.variables, kPod).options == entry.options);
    }
    CHECK(answer({}, kTwoPods, kPod).notes ==
          "from Kubernetes: PET_NNODES=2, node_rank 1 (JOB_COMPLETION_INDEX=1), master_addr "
          "train-0.peers.ml.svc.cluster.local (the host name " +
              std::string(kPod) + "), rdzv_id train (the host name " + kPod + ")");
  }

  TEST_CASE("scheduler: a host name that does not name other pods yields only the rank") {
    CHECK(answer({}, kTwoPods, "something.else").options == "node_rank=1");
    CHECK(answer({}, kTwoPods, "-1").options == "node_rank=1");
    CHECK(answer({}, kTwoPods, "").options == "node_rank=1");
  }

  TEST_CASE("scheduler: a pod without a headless service is rejected with a remedy") {
    CHECK(answer({}, kTwoPods, "train-1")
              .problem.find("the host name train-1 has no domain, so the other pods have no "
                            "known names; give the pods of the Job a subdomain") !=
          std::string::npos);
    const auto elsewhere = answer({"--rdzv_endpoint=host:29400"}, kTwoPods, "train-1");
    CHECK(elsewhere.problem == "");
    CHECK(elsewhere.options == "node_rank=1 rdzv_id=train");
  }

  TEST_CASE("scheduler: PET_ variables set by a controller are used and noted") {
    Variables variables = {{"PET_NNODES", "2"},
                           {"PET_NODE_RANK", "0"},
                           {"PET_MASTER_ADDR", "job-node-0-0.job"},
                           {"PET_MASTER_PORT", "29500"}};
    const std::string values =
        "PET_NNODES=2, PET_NODE_RANK=0, PET_MASTER_ADDR=job-node-0-0.job, PET_MASTER_PORT=29500";
    CHECK(answer({}, variables).options == "");
    CHECK(answer({}, variables).notes == "from the environment: " + values);
    variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
    CHECK(answer({}, variables).notes == "from Kubernetes: " + values);
  }

  TEST_CASE("scheduler: arguments and variables and files override derived values") {
    const auto lookup = lookup_in(slurm({{"PET_RDZV_ID", "mine"}}));
    const OptionSources sources{.scheduler = [&](const GivenValues& given) {
      return values_from_scheduler({.environment = lookup, .given = given, .host_name = "x"});
    }};
    const auto parsed = parse_command_line({"--local_addr=here", "a.out"}, lookup, 80, {}, sources);
    const auto* options = std::get_if<LaunchOptions>(&parsed);
    REQUIRE(options);
    CHECK(options->local_addr == "here");
    CHECK(options->rdzv_id == "mine");
    CHECK(options->nnodes == NodeRange{2, 2});
    CHECK(options->node_rank == 1);
    REQUIRE(options->from_config.notes.size() == 1);
  }

  TEST_CASE("scheduler: a Slurm node joins with its name in the node list") {
    const auto lookup = lookup_in(slurm());
    const OptionSources sources{.scheduler = [&](const GivenValues& given) {
      return values_from_scheduler({.environment = lookup, .given = given, .host_name = "x"});
    }};
    const auto parsed = parse_command_line({"a.out"}, lookup, 80, {}, sources);
    const auto* options = std::get_if<LaunchOptions>(&parsed);
    REQUIRE(options);
    CHECK(options->from_config.names_in_run == Strings{"gpu001", "gpu002"});
    CHECK(options->local_addr == "gpu002");
  }

  TEST_CASE("scheduler: the first node of a step prints the report for all") {
    for (const auto& [node, reporter] : Variables{{"0", ""}, {"1", "gpu001"}}) {
      CAPTURE(node);
      const auto lookup = lookup_in(slurm({{"SLURM_NODEID", node}}));
      const OptionSources sources{.scheduler = [&](const GivenValues& given) {
        return values_from_scheduler({.environment = lookup, .given = given, .host_name = "x"});
      }};
      const auto parsed = parse_command_line({"--security=open", "a.out"}, lookup, 80, {}, sources);
      const auto* options = std::get_if<LaunchOptions>(&parsed);
      REQUIRE(options);
      Strings problems;
      const auto plan = make_plan(*options, usual(), problems);
      REQUIRE(plan.nodes);
      CHECK(plan.options.from_config.reporter == reporter);
    }
  }
}

}  // namespace scheduler_test
