#include "launcher/plan/make_plan.hpp"

#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/log_layout.hpp"
#include "tests/support/plans.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace make_plan_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

struct Refusal {
  Strings arguments;
  std::string text;
};

const Refusal kRefusals[] = {
    {{"--node_rank=1", "--master_port=29500"},
     "--node_rank=1: there is one node, whose rank is 0; see --nnodes"},
    {{"--node_rank=1", "--rdzv_endpoint=head"},
     "--node_rank=1: there is one node, whose rank is 0; see --nnodes"},
    {{"--rdzv_endpoint=a,b"},
     "--rdzv_endpoint: several addresses; only etcd accepts more than one"},
    {{"--rdzv_conf=join_timout=5"}, "unknown key; did you mean join_timeout?"},
    {{"--rdzv_conf=is_host=0"}, "the only node must host the store"},
    {{"--rdzv_conf=store_type=file"}, "the only store is tcp"},
    {{"--rdzv_conf=rank=1"}, "whose rank is 0"},
    {{"--logs_specs=mine"}, "--logs_specs=mine: is not supported"},
    {{"-m", "--no_python"}, "--module and --no_python exclude each other"},
    {{"--nproc_per_node=gpu"}, "--nproc_per_node=gpu: no NVIDIA GPU was found"},
    {{"--nproc_per_node=2", "-r", "2:1"},
     "--redirects: there is no local rank 2; local ranks are 0 to 1"},
    {{"-t", "0:1,7:1"}, "--tee: there is no local rank 7; the only local rank is 0"},
    {{"--stdin=1"}, "--stdin: there is no rank 1; the only rank is 0"},
    {{"--ranks_filter=4", "--nproc_per_node=4"},
     "--ranks_filter: there is no rank 4; ranks are 0 to 3"},
    {{"--numa_binding=node"}, "--numa_binding: the CPUs that ddprun may run on cannot be read"},
};

}  // namespace

TEST_SUITE("absent local ranks") {
  TEST_CASE("make plan: absent ranks in --local_ranks_filter cause a note or a warning") {
    const auto plan = plan_of({"--local_ranks_filter=0,4", "--nproc_per_node=2", "train.py"});
    REQUIRE_FALSE(plan.notes.empty());
    CHECK(plan.notes.front() ==
          "--local_ranks_filter: there is no local rank 4; local ranks are 0 to 1");
    CHECK(plan.warnings.empty());
    CHECK(plan_of({"--local_ranks_filter=4", "--nproc_per_node=2", "train.py"}).warnings.front() ==
          "--local_ranks_filter: hides all output, as local ranks are 0 to 1");
  }
}

TEST_SUITE("make plan") {
  TEST_CASE("make plan: options that are invalid on a single node are rejected by name") {
    for (auto refusal : kRefusals) {
      refusal.arguments.emplace_back("train.py");
      const auto objections = objections_to(refusal.arguments);
      CHECK_MESSAGE(contains(objections, refusal.text), objections, " should contain ",
                    refusal.text);
    }
  }

  TEST_CASE("make plan: --nproc_per_node after the program is passed to it with a note") {
    const auto plan = plan_of({"train.py", "--nproc-per-node=2"});
    CHECK(plan.workers.size() == 1);
    CHECK(plan.notes == Strings{"--nproc-per-node follows the program, so it is passed to it"});
  }

  TEST_CASE("make plan: torchrun's event handler option is ignored with a warning") {
    const auto warnings_of = [](const std::string& handler) {
      return plan_of({"--event_log_handler=" + handler, "train.py"}).warnings;
    };
    CHECK(
        warnings_of("console") ==
        Strings{"--event_log_handler=console: has no effect; --events=FILE records what happens"});
    CHECK(warnings_of("null").empty());
    CHECK(warnings_of("").empty());
  }

  TEST_CASE("make plan: options for several nodes are ignored on one node with a warning") {
    struct Row {
      Strings arguments;
      std::string warning;
    };
    const std::string rank = "--node_rank=1: is ignored, as there is one node; see --nnodes";
    const std::string etcd =
        "--rdzv_backend: etcd and its address are ignored, as there is one node; see --nnodes";
    const std::vector<Row> table = {
        {{"--node_rank=1"}, rank},
        {{"--node_rank=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:29400"}, rank},
        {{"--node_rank=1", "--standalone", "--master_port=29500"}, rank},
        {{"--rdzv_backend=etcd", "--rdzv_endpoint=e0:2379,e1:2379", "--rdzv_id=job"}, etcd},
        {{"--rdzv_backend=etcd-v2", "--rdzv_endpoint=e0:2379", "--agent_store=off"}, etcd},
    };
    for (auto row : table) {
      CAPTURE(row.arguments);
      row.arguments.emplace_back("train.py");
      const auto plan = plan_of(row.arguments);
      CHECK(plan.warnings == Strings{row.warning});
      CHECK(plan.store_host != "e0");
      CHECK(plan.store_port != 2379);
    }
    CHECK(plan_of({"--node_rank=0", "train.py"}).warnings.empty());
  }

  TEST_CASE("make plan: an empty id or address is replaced by the default but not a role") {
    const auto plain = plan_of({"--nproc_per_node=2", "train.py"});
    for (const std::string name : {"rdzv_id", "master_addr", "local_addr"}) {
      CHECK_MESSAGE(plan_of({"--" + name + "=", "--nproc_per_node=2", "train.py"}) == plain, name);
    }
    CHECK(plan_of({"--role", "", "train.py"}).options.role.empty());
  }

  TEST_CASE("make plan: stream filters without tee and a log folder cause a note") {
    const auto notes_of = [](Strings arguments) {
      arguments.insert(arguments.end(), {"--duplicate_stdout_filters=a", "train.py"});
      return plan_of(arguments).notes;
    };
    CHECK(notes_of({"--tee=1"}).empty());
    const Strings note = {
        "--duplicate_stdout_filters has no effect without --tee and a log folder"};
    CHECK(notes_of({}) == note);
    CHECK(notes_of({"--tee=2"}) == note);
    CHECK(notes_of({"--tee=1", "--log_dir=/dev/null"}) == note);
  }

  TEST_CASE("make plan: all problems are reported together") {
    const auto objections =
        objections_to({"--rdzv_conf=rank=2", "--logs_specs=a", "--nproc_per_node=gpu", "lost.py"});
    for (const auto* part :
         {"--rdzv_conf=rank", "--logs_specs", "--nproc_per_node=gpu", "lost.py"}) {
      CHECK(contains(objections, part));
    }
  }

  TEST_CASE("make plan: defaults are one worker and a loopback store and no files") {
    const auto plan = plan_of({"train.py", "--lr", "1"});
    REQUIRE(plan.workers.size() == 1);
    CHECK(plan.workers[0].arguments == Strings{"/usr/bin/python3", "-u", "train.py", "--lr", "1"});
    CHECK(plan.store_host == "127.0.0.1");
    CHECK(plan.store_port == 0);
    CHECK_FALSE(plan.worker_store_port);
    CHECK_FALSE(plan.log_dir);
    CHECK(plan.run_id == "00000000-0000-4000-8000-000000000000");
    CHECK(plan.notes.empty());
  }

  TEST_CASE("make plan: the worker counts auto and cpu and gpu count usable devices") {
    CHECK(plan_of({"--nproc_per_node=auto", "train.py"}).workers.size() == 4);
    CHECK(plan_of({"--nproc_per_node=auto", "train.py"}, with_gpus(2)).workers.size() == 2);
    CHECK(plan_of({"--nproc_per_node=cpu", "train.py"}, with_gpus(2)).workers.size() == 4);
    CHECK(plan_of({"--nproc_per_node=gpu", "train.py"},
                  with_gpus(8, {{"CUDA_VISIBLE_DEVICES", "5,1,3"}}))
              .workers.size() == 3);
    CHECK(contains(objections_to({"--nproc_per_node=gpu", "train.py"},
                                 with_gpus(8, {{"CUDA_VISIBLE_DEVICES", "-1"}})),
                   "CUDA_VISIBLE_DEVICES=-1 leaves none of the 8 GPUs visible"));
  }

  TEST_CASE("make plan: each MIG device counts and --virtual_local_rank assigns it") {
    auto facts = with_gpus(1);
    facts.divided_gpus = {"MIG-GPU-a/1/0", "MIG-GPU-a/2/0"};
    const auto plan = plan_of({"--nproc_per_node=gpu", "--virtual_local_rank", "train.py"}, facts);
    CHECK(plan.warnings.empty());
    REQUIRE(plan.workers.size() == 2);
    CHECK(variable(plan.workers[1], "CUDA_VISIBLE_DEVICES") == "MIG-GPU-a/2/0");
    CHECK(contains(plan_of({"--nproc_per_node=auto", "train.py"}, facts).warnings[0],
                   "add --virtual_local_rank"));
    CHECK(plan_of({"--nproc_per_node=2", "train.py"}, facts).warnings.empty());
    facts.divided_gpus.pop_back();
    CHECK(plan_of({"--nproc_per_node=gpu", "train.py"}, facts).warnings.empty());
  }

  TEST_CASE("make plan: a cgroup quota limits the CPUs and is noted") {
    auto facts = usual();
    facts.cpu_quota = 2.5;
    const auto plan = plan_of({"--nproc_per_node=cpu", "--omp_num_threads=1", "train.py"}, facts);
    CHECK(plan.workers.size() == 2);
    CHECK(plan.notes == Strings{"the quota of the cgroup leaves 2 of 4 CPUs to count on"});
    CHECK(plan_of({"--nproc_per_node=auto", "train.py"}, facts).workers.size() == 2);
    facts.cpu_quota = 0.5;
    CHECK(plan_of({"--nproc_per_node=cpu", "train.py"}, facts).workers.size() == 1);
    facts.cpu_quota = 64;
    CHECK(plan_of({"--nproc_per_node=cpu", "train.py"}, facts).workers.size() == 4);
  }

  TEST_CASE("make plan: an unknown or too large number of CPUs is reported") {
    auto facts = usual();
    facts.cpus.clear();
    CHECK(contains(objections_to({"--nproc_per_node=cpu", "train.py"}, facts), "give a number"));
    facts.cpus.resize(1025);
    CHECK(contains(objections_to({"--nproc_per_node=cpu", "train.py"}, facts),
                   "1025 workers are more than the 1024"));
  }

  TEST_CASE("make plan: macros are replaced in arguments only") {
    const auto plan = plan_of({"--nproc_per_node=2", "trainer", "--out=r${local_rank}", "$$x"});
    CHECK(plan.workers[1].arguments == Strings{"/opt/ddprun/bin/trainer", "--out=r1", "$x"});
  }

  TEST_CASE("make plan: --pass_local_rank prepends the local rank to the program's arguments") {
    auto facts = usual();
    const auto with = [&] {
      return plan_of({"--pass_local_rank", "train.py", "-x"}, facts).workers[0].arguments;
    };
    CHECK(with() == Strings{"/usr/bin/python3", "-u", "train.py", "--local-rank=0", "-x"});
    facts.find_pytorch = [](const auto&, const auto&) {
      return std::optional(InstalledPytorch{.version = "1.13.0a0"});
    };
    CHECK(with() == Strings{"/usr/bin/python3", "-u", "train.py", "--local_rank=0", "-x"});
    CHECK(plan_of({"--use_env", "train.py", "-x"}).workers[0].arguments ==
          Strings{"/usr/bin/python3", "-u", "train.py", "-x"});
  }

  TEST_CASE("make plan: --preload distinguishes the interpreter from its program") {
    using ddprun::PreloadPlan;
    CHECK(contains(objections_to({"--preload=torch", "trainer"}),
                   "--preload: trainer is not run by Python"));
    CHECK_FALSE(plan_of({"train.py"}).preload);
    CHECK(plan_of({"--preload=auto", "train.py", "-x"}).preload ==
          PreloadPlan{.interpreter_words = 2});
    CHECK(plan_of({"--preload=torch", "-m", "train", "-x"}).preload ==
          PreloadPlan{.modules = {"torch"}, .interpreter_words = 2, .is_module = true});
    CHECK(plan_of({"--preload=torch", "-m", "--run_path", "train.py"}).preload ==
          PreloadPlan{.modules = {"torch"}, .interpreter_words = 2});
  }

  TEST_CASE("make plan: --tee overrides --redirects for each rank and stream") {
    const auto plan = plan_of({"--nproc_per_node=3", "-r", "3", "-t", "0:1,2:2",
                               "--local_ranks_filter=0", "--log_dir=logs", "train.py"});
    CHECK(plan.workers[0].standard_output == StreamTarget::tee);
    CHECK(plan.workers[0].standard_error == StreamTarget::file);
    CHECK(plan.workers[1].standard_output == StreamTarget::file);
    CHECK(plan.workers[2].standard_error == StreamTarget::tee);
    CHECK(plan.workers[0].is_shown);
    CHECK_FALSE(plan.workers[1].is_shown);
    CHECK(plan.log_dir == "/home/me/logs");
  }

  TEST_CASE("make plan: log files go to a temporary folder unless --log_dir is set") {
    CHECK(plan_of({"-r3", "train.py"}).log_dir == "/tmp/ddprun_abcd1234");
    CHECK(plan_of({"-t", "0:1", "train.py"}).log_dir == "/tmp/ddprun_abcd1234");
    CHECK_FALSE(plan_of({"-t", "0:0", "train.py"}).log_dir);
    CHECK_FALSE(plan_of({"-r3", "--log_dir=/dev/null", "train.py"}).log_dir);
    CHECK(plan_of({"--log_dir=/var/log/job", "train.py"}).log_dir == "/var/log/job");
  }

  TEST_CASE("make plan: each worker of an attempt has its own log folder for any run id") {
    auto plan = plan_of({"--rdzv_id=../a job", "train.py"});
    const auto folder = run_folder("/logs", plan);
    CHECK(folder == "/logs/.._a job_abcd1234");
    CHECK(worker_folder(folder, 2, 13) == folder / "attempt_2" / "13");
    plan = plan_of({"--rdzv_id=" + std::string(5000, 'x'), "train.py"});
    CHECK(plan.run_folder_name.size() < 255);
  }
}

TEST_SUITE("store address") {
  TEST_CASE("store address: options take precedence in the same order as in torchrun") {
    struct Case {
      Strings arguments;
      std::string host;
      int port;
    };
    const Case cases[] = {
        {{}, "127.0.0.1", 0},
        {{"--master_port=29500"}, "127.0.0.1", 29500},
        {{"--master_addr=10.0.0.1"}, "10.0.0.1", 0},
        {{"--master_addr=localhost", "--master_port=1"}, "127.0.0.1", 1},
        {{"--local_addr=10.0.0.2"}, "10.0.0.2", 0},
        {{"--local_addr=10.0.0.2", "--master_addr=10.0.0.1"}, "10.0.0.1", 0},
        {{"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:29400"}, "127.0.0.1", 29400},
        {{"--rdzv_endpoint=localhost:0"}, "127.0.0.1", 0},
        {{"--rdzv_endpoint=node0"}, "node0", 0},
        {{"--rdzv_endpoint=localhost:1", "--master_port=2"}, "127.0.0.1", 1},
        {{"--standalone", "--rdzv_endpoint=node0:1"}, "127.0.0.1", 0},
    };
    for (auto [arguments, store_host, port] : cases) {
      arguments.emplace_back("train.py");
      const auto plan = plan_of(arguments);
      CHECK(plan.store_host == store_host);
      CHECK(plan.store_port == port);
    }
  }

  TEST_CASE("store address: --master_port is the port of a store in rank 0") {
    struct Case {
      Strings arguments;
      int worker_port;
      int port;
    };
    const Case cases[] = {
        {{}, 0, 0},
        {{"--master_port=29500"}, 29500, 0},
        {{"--rdzv_endpoint=localhost:29400"}, 0, 29400},
        {{"--standalone", "--master_port=29500"}, 0, 0},
    };
    for (auto [arguments, worker_port, port] : cases) {
      arguments.insert(arguments.end(), {"--agent_store=off", "train.py"});
      const auto plan = plan_of(arguments);
      CHECK(plan.worker_store_port == worker_port);
      CHECK(plan.store_port == port);
    }
    CHECK(contains(objections_to({"--agent_store=off", "--rdzv_endpoint=localhost:7",
                                  "--master_port=7", "train.py"}),
                   "cannot share port 7"));
    CHECK(contains(describe_plan(plan_of({"--agent_store=off", "train.py"})),
                   "    TORCHELASTIC_USE_AGENT_STORE=False\n"));
  }

  TEST_CASE("store address: TORCH_DISABLE_SHARE_RDZV_TCP_STORE moves the store to rank 0") {
    const auto facts = usual({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}});
    CHECK(plan_of({"train.py"}, facts).worker_store_port == 0);
    CHECK_FALSE(plan_of({"--agent_store=on", "train.py"}, facts).worker_store_port);
    const auto zero = usual({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}});
    CHECK_FALSE(plan_of({"train.py"}, zero).worker_store_port);
  }

  TEST_CASE("store address: overridden or ineffective options are noted") {
    CHECK(plan_of({"--standalone", "--master_port=5", "train.py"}).notes ==
          Strings{"--standalone: the store takes a free port, not the one given"});
    CHECK(plan_of({"--rdzv_conf=timeout=5", "train.py"}).notes ==
          Strings{"--rdzv_conf has no effect on one node, except for check_users"});
    const auto open = plan_of({"--rdzv_conf=check_users=0", "train.py"});
    CHECK(open.notes.empty());
    CHECK_FALSE(open.checks_users);
    CHECK(plan_of({"train.py"}).checks_users);
    CHECK_FALSE(plan_of({"--nnodes=2", "--rdzv_endpoint=a", "--security=open",
                         "--rdzv_conf=check_users=no", "train.py"})
                    .checks_users);
  }
}

TEST_SUITE("describe plan") {
  TEST_CASE("describe plan: a dry run shows commands and files and common settings") {
    const auto text =
        describe_plan(plan_of({"--nproc_per_node=2", "-r1", "--log_dir=/logs", "--max_restarts=2",
                               "--rdzv_id=job", "train.py", "two words", "it's ${local_rank}"}));
    for (const auto* part :
         {"run job: 2 x train.py, role default\n", "store: 127.0.0.1, port (chosen at the start)\n",
          "restarts: 2, shutdown timeout: 30 s\n", "logs: /logs/job_abcd1234\n", "node 0, rank 1\n",
          "  command: /usr/bin/python3 -u train.py 'two words' 'it'\\''s 1'\n",
          "  stdout: /logs/job_abcd1234/attempt_0/1/stdout.log\n  stderr: console\n",
          "  its own environment:\n    LOCAL_RANK=1\n    RANK=1\n", "    WORLD_SIZE=2\n",
          "    MASTER_PORT=(chosen at the start)\n", "    OMP_NUM_THREADS=1\n",
          "    TORCHELASTIC_ERROR_FILE=/logs/job_abcd1234/attempt_0/1/error.json\n",
          "    TORCHELASTIC_USE_AGENT_STORE=True\n"}) {
      CHECK_MESSAGE(contains(text, part), text, " should contain ", part);
    }
    CHECK(text.find("WORLD_SIZE=2\n") < text.find("node 0, rank 0"));
    CHECK(text.find("    WORLD_SIZE=2\n") == text.rfind("    WORLD_SIZE=2\n"));
  }

  TEST_CASE("describe plan: a dry run shows the target of each stream") {
    const auto streams = [](const Strings& options) {
      auto arguments = options;
      arguments.insert(arguments.begin(), {"--nproc_per_node=2", "--rdzv_id=job"});
      arguments.emplace_back("train.py");
      const auto text = describe_plan(plan_of(arguments));
      const auto begin = text.find("  stdout: ", text.find("node 0, rank 1"));
      return text.substr(begin, text.find('\n', begin) - begin);
    };
    CHECK(streams({"-t1", "--log_dir=/logs"}) ==
          "  stdout: console and /logs/job_abcd1234/attempt_0/1/stdout.log");
    CHECK(streams({"-t1", "--log_dir=/logs", "--local_ranks_filter=0"}) ==
          "  stdout: /logs/job_abcd1234/attempt_0/1/stdout.log");
    CHECK(streams({"-r1", "--log_dir=/dev/null"}) == "  stdout: nowhere");
    CHECK(streams({"--local_ranks_filter=0"}) == "  stdout: nowhere");
    CHECK(streams({"--ranks_filter=0"}) == "  stdout: nowhere");
    CHECK(streams({"--ranks_filter=1"}) == "  stdout: console");
  }
}

}  // namespace make_plan_test
