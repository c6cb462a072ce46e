// Environment of workers in a plan, and tools that it finds.
#include "launcher/plan/program_text.hpp"
#include "tests/support/plans.hpp"

#include <doctest/doctest.h>

namespace plan_environment_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("worker environment of a plan") {
  TEST_CASE("plan environment: OMP_NUM_THREADS is 1 for several workers with a note") {
    const auto plan = plan_of({"--nproc_per_node=2", "train.py"});
    CHECK(variable(plan.workers[1], "OMP_NUM_THREADS") == "1");
    REQUIRE(plan.notes.size() == 1);
    CHECK(contains(plan.notes[0], "OMP_NUM_THREADS"));
  }

  TEST_CASE("plan environment: OMP_NUM_THREADS is not set for one worker or if already set") {
    CHECK_FALSE(variable(plan_of({"train.py"}).workers[0], "OMP_NUM_THREADS"));
    const auto plan =
        plan_of({"--nproc_per_node=2", "train.py"}, usual({{"OMP_NUM_THREADS", "8"}}));
    CHECK_FALSE(variable(plan.workers[0], "OMP_NUM_THREADS"));
    CHECK(plan.notes.empty());
  }

  TEST_CASE("plan environment: --omp_num_threads overrides OMP_NUM_THREADS and accepts auto") {
    CHECK(variable(plan_of({"--nproc_per_node=2", "--omp_num_threads=auto", "train.py"}).workers[0],
                   "OMP_NUM_THREADS") == "2");
    CHECK(variable(plan_of({"--nproc_per_node=9", "--omp_num_threads=auto", "train.py"}).workers[0],
                   "OMP_NUM_THREADS") == "1");
    CHECK(variable(plan_of({"--omp_num_threads=3", "train.py"}, usual({{"OMP_NUM_THREADS", "8"}}))
                       .workers[0],
                   "OMP_NUM_THREADS") == "3");
  }

  TEST_CASE("plan environment: NCCL error handling is on unless set by the user") {
    const std::string name = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
    CHECK(variable(plan_of({"train.py"}).workers[0], name) == "1");
    CHECK_FALSE(variable(plan_of({"train.py"}, usual({{name, "0"}})).workers[0], name));
  }

  TEST_CASE("plan environment: Python faulthandler is on unless set by the user") {
    const std::string name = "PYTHONFAULTHANDLER";
    CHECK(variable(plan_of({"train.py"}).workers[0], name) == "1");
    CHECK_FALSE(variable(plan_of({"train.py"}, usual({{name, ""}})).workers[0], name));
  }

  TEST_CASE("plan environment: rank 0 hosts the store of a program that sets MASTER_PORT") {
    auto facts = usual();
    facts.read_program = [](const std::filesystem::path& path) {
      CHECK(path == "/home/me/train.py");
      return std::string("os.environ['MASTER_PORT'] = '12355'\nmp.spawn(work)\n");
    };
    const auto plan = plan_of({"train.py"}, facts);
    CHECK(plan.worker_store_port == 0);
    CHECK(plan.notes ==
          Strings{"train.py sets MASTER_PORT: the worker with rank 0 hosts the store at "
                  "MASTER_PORT; with --agent_store=on, ddprun does"});
    CHECK_FALSE(plan_of({"--agent_store=on", "train.py"}, facts).worker_store_port);
    CHECK_FALSE(
        plan_of({"--nnodes=2", "--security=open", "--rdzv_endpoint=first:29400", "train.py"}, facts)
            .worker_store_port);
    CHECK_FALSE(plan_of({"-m", "train"}, facts).worker_store_port);
  }

  TEST_CASE("plan environment: only a program that spawns and assigns to MASTER_PORT counts") {
    for (const std::string program : {
             "os.environ['MASTER_PORT'] = '12355'\nmp.spawn(f)",
             "def setup():\n    environ[\"MASTER_PORT\"] =str(port)\nmultiprocessing.Process(f)",
             "if os.environ['MASTER_PORT'] == '1':\n\tos.environ['MASTER_PORT'] = '2'\nspawn()",
         }) {
      CAPTURE(program);
      CHECK(sets_master_port(program));
    }
    for (const std::string program : {
             "",
             "MASTER_PORT",
             "MASTER_PORT'] = 1",
             "'MASTER_PORT'] = 1",
             "port = os.environ['MASTER_PORT']",
             "env['MASTER_PORT'] = '12355'",
             "if os.environ['MASTER_PORT'] == '12355': pass",
             "# os.environ['MASTER_PORT'] = '12355'",
             "f()  # os.environ['MASTER_PORT'] = '12355'",
             "os.environ.setdefault('MASTER_PORT', '12355')",
             "os.environ.update(MASTER_PORT='12355')",
             "os.environ['MASTER_PORT_2'] = '12355'",
             "if 'MASTER_PORT' not in os.environ:\n  os.environ['MASTER_PORT'] = '12355'",
             "os.environ['MASTER_PORT'] = os.environ.get('MASTER_PORT', '12355')",
             "if \"RANK\" not in os.environ:\n  os.environ['MASTER_PORT'] = '12355'",
             "if not dist.is_torchelastic_launched():\n  os.environ['MASTER_PORT'] = '12355'",
             "os.environ['MASTER_PORT",
             "os.environ['MASTER_PORT']",
         }) {
      CAPTURE(program);
      CHECK_FALSE(sets_master_port(program + "\nmp.spawn(f)"));
    }
    CHECK_FALSE(sets_master_port("os.environ['MASTER_PORT'] = '12355'"));
  }

  TEST_CASE("plan environment: PyTorch without libuv hosts the store in rank 0 unless overridden") {
    const auto with = [](const Variables& variables) {
      auto facts = usual(variables);
      facts.find_pytorch = [](const auto& interpreter, const auto&) {
        CHECK(interpreter == "/usr/bin/python3");
        return std::optional(InstalledPytorch{.version = "2.6.0", .lacks_libuv = true});
      };
      return facts;
    };
    const auto plan = plan_of({"train.py"}, with({}));
    CHECK(plan.worker_store_port == 0);
    CHECK(variable(plan.workers[0], "USE_LIBUV") == "0");
    CHECK(plan.notes == Strings{"PyTorch 2.6.0 was built without libuv: the worker with rank 0 "
                                "hosts the store at MASTER_PORT"});
    CHECK_FALSE(
        variable(plan_of({"train.py"}, with({{"USE_LIBUV", "1"}})).workers[0], "USE_LIBUV"));
    CHECK_FALSE(plan_of({"--agent_store=on", "train.py"}, with({})).worker_store_port);
    const auto switched = with({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}});
    CHECK_FALSE(plan_of({"train.py"}, switched).worker_store_port);
    const auto off = plan_of({"--agent_store=off", "train.py"}, with({}));
    CHECK(variable(off.workers[0], "USE_LIBUV") == "0");
    auto native = with({});
    native.find_pytorch = nullptr;
    native.file_kind = [](const auto&) { return FileKind::executable; };
    CHECK_FALSE(plan_of({"trainer"}, native).worker_store_port);
    const auto nodes = plan_of(
        {"--nnodes=2", "--security=open", "--rdzv_endpoint=first:29400", "train.py"}, with({}));
    CHECK_FALSE(nodes.worker_store_port);
    REQUIRE(nodes.warnings.size() == 1);
    CHECK(contains(nodes.warnings[0], "cannot form process groups of several nodes"));
  }

  TEST_CASE("plan environment: stack tools are found in PATH and --stacks selects the time") {
    const auto plan = plan_of({"--stacks=stop", "train.py"});
    CHECK(plan.stacks == StackPlan{.when = StacksWhen::stop});
    CHECK(plan_of({"train.py"}).stacks.when == StacksWhen::kill);
    auto facts = usual();
    const auto file_kind = facts.file_kind;
    facts.file_kind = [file_kind](const std::filesystem::path& path) {
      return path.filename() == "gdb" ? FileKind::executable : file_kind(path);
    };
    CHECK(plan_of({"train.py"}, facts).stacks.gdb.ends_with("/gdb"));
    CHECK(plan_of({"train.py"}, facts).stacks.py_spy.empty());
  }

  TEST_CASE("plan environment: py-spy is also found in the folder of the interpreter") {
    auto facts = usual({{"PYTHON_EXEC", "/home/env/bin/python"}});
    facts.file_kind = [](const std::filesystem::path& path) {
      const bool exists = path.parent_path() == "/home/env/bin" || path.filename() == "train.py";
      return exists ? FileKind::executable : FileKind::missing;
    };
    CHECK(plan_of({"train.py"}, facts).stacks.py_spy == "/home/env/bin/py-spy");
    CHECK(plan_of({"--no_python", "/home/env/bin/trainer"}, facts).stacks.py_spy.empty());
  }

  TEST_CASE("plan environment: handled signals are passed to workers by name") {
    CHECK(variable(plan_of({"--signals_to_handle=term,USR1", "train.py"}).workers[0],
                   "TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM,SIGUSR1");
  }

  TEST_CASE("plan environment: --virtual_local_rank gives each worker rank 0 and one visible GPU") {
    const auto facts = with_gpus(4, {{"CUDA_VISIBLE_DEVICES", "3,0,1"}});
    const auto plan = plan_of({"--nproc_per_node=3", "--virtual_local_rank", "train.py"}, facts);
    for (const auto& worker : plan.workers) CHECK(variable(worker, "LOCAL_RANK") == "0");
    CHECK(variable(plan.workers[0], "CUDA_VISIBLE_DEVICES") == "3");
    CHECK(variable(plan.workers[1], "CUDA_VISIBLE_DEVICES") == "0");
    CHECK(variable(plan.workers[2], "CUDA_VISIBLE_DEVICES") == "1");
    CHECK(plan.workers[2].local_rank == 2);
    CHECK(contains(objections_to({"--nproc_per_node=4", "--virtual_local_rank", "train.py"}, facts),
                   "4 workers cannot each have one of 3 visible GPUs"));
  }

  TEST_CASE("plan environment: --share_gpu gives workers distinct NCCL host ids unless set") {
    auto facts = with_gpus(2, {{"NCCL_NET", "IB"}});
    facts.host_name = "here";
    const auto plan = plan_of({"--nproc_per_node=3", "--share_gpu", "train.py"}, facts);
    CHECK(variable(plan.workers[2], "NCCL_HOSTID") == "ddprun-here-2");
    CHECK_FALSE(variable(plan.workers[2], "NCCL_NET"));
    const auto own =
        plan_of({"--nproc_per_node=3", "--share_gpu", "--virtual_local_rank", "train.py"}, facts);
    CHECK(variable(own.workers[2], "CUDA_VISIBLE_DEVICES") == "0");
    CHECK_FALSE(variable(plan_of({"train.py"}, facts).workers[0], "NCCL_HOSTID"));
  }
}

}  // namespace plan_environment_test
