#include "tests/support/command_lines.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace command_line_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

Strings with_program(Strings arguments) {
  arguments.emplace_back("train.py");
  return arguments;
}

LaunchOptions changed(void (*change)(LaunchOptions&)) {
  LaunchOptions options;
  options.program = "train.py";
  change(options);
  return options;
}

using O = LaunchOptions;
using Kind = WorkerCount::Kind;

std::string names_of_modules(int count) {
  std::string names = "m";
  for (int i = 1; i < count; ++i) names += ",m";
  return names;
}

struct Case {
  Strings arguments;
  void (*expected)(O&);
};

// Arguments before "train.py", and their effect on the default options.
const Case kGood[] = {
    {{}, [](O&) {}},
    {{"--nproc_per_node=4"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 4};
     }},
    {{"--nproc-per-node", "4"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 4};
     }},
    {{"--nproc_per-node", "4"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 4};
     }},
    {{"--np=4"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 4};
     }},
    {{"--nproc", "4"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 4};
     }},
    {{"--nproc_per_node=auto"},
     [](O& o) {
       o.nproc_per_node = {Kind::automatic, 0};
     }},
    {{"--nproc_per_node=cpu"},
     [](O& o) {
       o.nproc_per_node = {Kind::cpu, 0};
     }},
    {{"--nproc_per_node=gpu"},
     [](O& o) {
       o.nproc_per_node = {Kind::gpu, 0};
     }},
    {{"--nproc_per_node=2", "--nproc_per_node=3"},
     [](O& o) {
       o.nproc_per_node = {Kind::number, 3};
     }},
    {{"--nnodes=2"},
     [](O& o) {
       o.nnodes = {2, 2};
     }},
    {{"--nnodes", "1:3"},
     [](O& o) {
       o.nnodes = {1, 3};
     }},
    {{"--nn=1:1"},
     [](O& o) {
       o.nnodes = {1, 1};
     }},
    {{"--standalone"}, [](O& o) { o.standalone = true; }},
    {{"--stand"}, [](O& o) { o.standalone = true; }},
    {{"-m"}, [](O& o) { o.module = true; }},
    {{"--module"}, [](O& o) { o.module = true; }},
    {{"--no-python"}, [](O& o) { o.no_python = true; }},
    {{"--no_p"}, [](O& o) { o.no_python = true; }},
    {{"--run_path"}, [](O& o) { o.run_path = true; }},
    {{"-r", "3"}, [](O& o) { o.redirects.for_all = 3; }},
    {{"-r3"}, [](O& o) { o.redirects.for_all = 3; }},
    {{"-r=3"}, [](O& o) { o.redirects.for_all = 3; }},
    {{"--redirect=3"}, [](O& o) { o.redirects.for_all = 3; }},
    {{"--redirects", "0:3,12:1"},
     [](O& o) {
       o.redirects.by_local_rank = {{0, 3}, {12, 1}};
     }},
    {{"-t", "0:3"},
     [](O& o) {
       o.tee.by_local_rank = {{0, 3}};
     }},
    {{"-t2", "-r1"},
     [](O& o) {
       o.tee.for_all = 2;
       o.redirects.for_all = 1;
     }},
    {{"-mr3"},
     [](O& o) {
       o.module = true;
       o.redirects.for_all = 3;
     }},
    {{"--local_ranks_filter=3,0,3"},
     [](O& o) {
       o.local_ranks_filter = {0, 3};
     }},
    {{"--local_ranks_filter="}, [](O&) {}},
    {{"--ranks_filter=1030,7"},
     [](O& o) {
       o.ranks_filter = {7, 1030};
     }},
    {{"--stdin=3"}, [](O& o) { o.stdin_worker = {.is_automatic = false, .rank = 3}; }},
    {{"--stdin=none"}, [](O& o) { o.stdin_worker.is_automatic = false; }},
    {{"--stdin=auto"}, [](O&) {}},
    {{"--preload=auto"}, [](O& o) { o.preload = {"auto"}; }},
    {{"--preload=torch,torch.nn.parallel,_a1"},
     [](O& o) {
       o.preload = {"torch", "torch.nn.parallel", "_a1"};
     }},
    {{"--duplicate_stdout_filters=a,,b,c"},
     [](O& o) {
       o.duplicate_stdout_filters = {"a,b", "c"};
     }},
    {{"--prefix=none"}, [](O& o) { o.prefix = {}; }},
    {{"--prefix", ""}, [](O& o) { o.prefix = {}; }},
    {{"--prefix=${rank}|"},
     [](O& o) {
       o.prefix.pieces = {{PrefixField::rank, ""}, {PrefixField::none, "|"}};
     }},
    {{"--log_line_prefix_template=${rank}${pid}"},
     [](O& o) {
       o.prefix.pieces = {{PrefixField::rank, ""}, {PrefixField::none, "${pid}"}};
     }},
    {{"--max_restarts", "3"}, [](O& o) { o.max_restarts = 3; }},
    {{"--max=3"}, [](O& o) { o.max_restarts = 3; }},
    {{"--monitor_interval=5"}, [](O& o) { o.monitor_interval = 5s; }},
    {{"--monitor-interval=0.25"}, [](O& o) { o.monitor_interval = 250ms; }},
    {{"--shutdown_timeout=0"}, [](O& o) { o.shutdown_timeout = 0ms; }},
    {{"--shutdown_timeout=1.5"}, [](O& o) { o.shutdown_timeout = 1500ms; }},
    {{"--signals_to_handle=SIGTERM,usr1,INT,SIGTERM"},
     [](O& o) {
       o.signals_to_handle = {SIGTERM, SIGUSR1, SIGINT};
     }},
    {{"--role=actor"}, [](O& o) { o.role = "actor"; }},
    {{"--role", "-"}, [](O& o) { o.role = "-"; }},
    {{"--role", "-1"}, [](O& o) { o.role = "-1"; }},
    {{"--rdzv_backend=c10d"}, [](O& o) { o.rdzv_backend = RendezvousBackend::c10d; }},
    {{"--rdzv_endpoint=localhost:29400"},
     [](O& o) {
       o.rdzv_endpoint = {"localhost", 29400};
     }},
    {{"--rdzv_endpoint=localhost"},
     [](O& o) {
       o.rdzv_endpoint = {"localhost", 0};
     }},
    {{"--rdzv_endpoint=[::1]:1"},
     [](O& o) {
       o.rdzv_endpoint = {"::1", 1};
     }},
    {{"--rdzv_endpoint=[::1]"},
     [](O& o) {
       o.rdzv_endpoint = {"::1", 0};
     }},
    {{"--rdzv_endpoint=[fe80::1%eth0]:1"},
     [](O& o) {
       o.rdzv_endpoint = {"fe80::1%eth0", 1};
     }},
    {{"--rdzv_endpoint=fe80::1"},
     [](O& o) {
       o.rdzv_endpoint = {"fe80::1", 0};
     }},
    {{"--rdzv_endpoint=a:1,[::1]:2,c"},
     [](O& o) {
       o.rdzv_endpoint = {.host = "a", .port = 1, .others = {{"::1", 2}, {"c", 0}}};
     }},
    {{"--rdzv_endpoint=a:0"}, [](O& o) { o.rdzv_endpoint = {.host = "a", .is_any_port = true}; }},
    {{"--rdzv-id=job 7"}, [](O& o) { o.rdzv_id = "job 7"; }},
    {{"--rdzv_conf=timeout=5,is_host=1"},
     [](O& o) {
       o.rdzv_conf = {{"timeout", "5"}, {"is_host", "1"}};
     }},
    {{"--rdzv-conf='join_timeout=5,last_call_timeout=1'"},
     [](O& o) {
       o.rdzv_conf = {{"join_timeout", "5"}, {"last_call_timeout", "1"}};
     }},
    {{"--rdzv_conf="}, [](O&) {}},
    {{"--node_rank=0"}, [](O& o) { o.node_rank = 0; }},
    {{"--master_addr=node0"}, [](O& o) { o.master_addr = "node0"; }},
    {{"--master_port", "29500"}, [](O& o) { o.master_port = 29500; }},
    {{"--local_addr=10.0.0.1"}, [](O& o) { o.local_addr = "10.0.0.1"; }},
    {{"--log_dir=logs"}, [](O& o) { o.log_dir = "logs"; }},
    {{"--start_method=fork"}, [](O& o) { o.start_method = "fork"; }},
    {{"--numa_binding=core-complex"}, [](O& o) { o.numa_binding.kind = Affinity::Kind::l3; }},
    {{"--numa-binding", "socket"}, [](O& o) { o.numa_binding.kind = Affinity::Kind::socket; }},
    {{"--affinity=auto"}, [](O&) {}},
    {{"--affinity=none"}, [](O& o) { o.affinity.kind = Affinity::Kind::none; }},
    {{"--affinity", "exclusive"}, [](O& o) { o.affinity.kind = Affinity::Kind::exclusive; }},
    {{"--affinity=8,0-2;2-3,3"},
     [](O& o) {
       o.affinity = {Affinity::Kind::list, {{0, 1, 2, 8}, {2, 3}}};
     }},
    {{"--virtual-local-rank"}, [](O& o) { o.virtual_local_rank = true; }},
    {{"--use_env"}, [](O& o) { o.use_env = true; }},
    {{"--use-env", "--pass-local-rank"},
     [](O& o) {
       o.use_env = true;
       o.pass_local_rank = true;
     }},
    {{"--event=null"}, [](O&) {}},
    {{"--events=run.jsonl"}, [](O& o) { o.events = "run.jsonl"; }},
    {{"--exit_code=worker"}, [](O& o) { o.exit_code = ExitCodePolicy::worker; }},
    {{"--exit=torchrun"}, [](O&) {}},
    {{"--agent_store=off"}, [](O& o) { o.agent_store = false; }},
    {{"--agent-store", "on"}, [](O& o) { o.agent_store = true; }},
    {{"--omp_num_threads=auto"}, [](O& o) { o.omp_num_threads = "auto"; }},
    {{"--dry_run"}, [](O& o) { o.dry_run = true; }},
    {{"--"}, [](O&) {}},
};

struct BadCase {
  Strings arguments;
  std::string text;  ///< part of the message
};

const BadCase kBad[] = {
    {{"--nproc_per_nod=4x"}, "--nproc_per_node=4x: is neither a number from 1 to 1024 nor auto"},
    {{"--nproc_per_node=0"}, "from 1 to 1024"},
    {{"--nproc_per_node=1025"}, "from 1 to 1024"},
    {{"--nproc_per_node=-1"}, "from 1 to 1024"},
    {{"--nproc_per_node", "-1"}, "--nproc_per_node=-1: is neither"},
    {{"--nproc_per_node="}, "--nproc_per_node=: is neither"},
    {{"--nproc_per_node=99999999999999999999"}, "from 1 to 1024"},
    {{"--nproc_per_node", "--standalone"}, "--nproc_per_node needs a value: N|auto|cpu|gpu"},
    {{"--nproc-per-ndoe=4"}, "unknown option --nproc-per-ndoe; did you mean --nproc_per_node?"},
    {{"--n=4"},
     "--n is ambiguous: it could be --nproc_per_node, --no_python, --numa_binding, "
     "--nnodes, --node_rank"},
    {{"--rdzv=x"}, "--rdzv is ambiguous: it could be --rdzv_backend, --rdzv_endpoint"},
    {{"--duplicate=x"}, "--duplicate_stdout_filters, --duplicate_stderr_filters"},
    {{"--epochs=3"}, "unknown option --epochs; options of the program must follow its name"},
    {{"-x"}, "unknown option -x"},
    {{"-n", "4"}, "unknown option -n; did you mean --nproc_per_node?"},
    {{"-n4"}, "unknown option -n4; did you mean --nproc_per_node?"},
    {{"-np", "4"}, "unknown option -np; did you mean --nproc_per_node?"},
    {{"-mx"}, "unknown option -mx"},
    {{"-role"}, "-r"},
    {{"-nproc_per_node=2"}, "did you mean --nproc_per_node?"},
    {{"--standalone=1"}, "--standalone takes no value, but '1' was given"},
    {{"--nnodes=2:20:30"}, "--nnodes=2:20:30: is neither a number of nodes nor MIN:MAX"},
    {{"--nnodes=3:2"}, "has a minimum above its maximum"},
    {{"--nnodes=0"}, "MIN:MAX"},
    {{"--nnodes=:"}, "MIN:MAX"},
    {{"-r4"}, "--redirects=4: is neither 0 (none)"},
    {{"--redirects", "ddp.py"}, "nor a map like 0:3,1:1; write the value before the program"},
    {{"--tee", "./train"}, "nor a map like 0:3,1:1; write the value before the program"},
    {{"-r", "0:3,"}, "nor a map like 0:3,1:1"},
    {{"-r", "0:3:1"}, "nor a map like 0:3,1:1"},
    {{"-t", "0:4"}, "nor a map like 0:3,1:1"},
    {{"-t", "0:3,0:1"}, "names local rank 0 twice"},
    {{"-t", "9999:1"}, "nor a map"},
    {{"--local_ranks_filter=0,x"}, "is not a list of local ranks like 0,3"},
    {{"--ranks_filter=0,-1"}, "--ranks_filter=0,-1: is not a list of ranks like 0,3"},
    {{"--stdin=all"}, "--stdin=all: is neither a rank like 0 nor auto or none"},
    {{"--preload="}, "--preload=: is neither auto nor names of modules like torch,numpy"},
    {{"--preload=a,,b"}, "is neither auto nor names of modules"},
    {{"--preload=a..b"}, "is neither auto nor names of modules"},
    {{"--preload=.a"}, "is neither auto nor names of modules"},
    {{"--preload=1a"}, "is neither auto nor names of modules"},
    {{"--preload=train.py/"}, "is neither auto nor names of modules"},
    {{"--preload=a,auto"}, "--preload=a,auto: auto excludes other modules; write either auto"},
    {{"--preload=" + names_of_modules(257)}, "has more than 256 modules"},
    {{"--prefix=${rnak}"}, "--prefix=${rnak}: has no field 'rnak'; did you mean ${rank}?"},
    {{"--max_restarts=-1"}, "is not an integer from 0 to 1000000"},
    {{"--max_restarts=1000001"}, "is not an integer from 0 to 1000000"},
    {{"--max_restarts=1.5"}, "is not an integer"},
    {{"--monitor_interval=-1"}, "is not a number of seconds"},
    {{"--monitor_interval=nan"}, "is not a number of seconds"},
    {{"--monitor_interval=inf"}, "is not a number of seconds"},
    {{"--shutdown_timeout=31536001"}, "is not a number of seconds from 0 to 31536000"},
    {{"--signals_to_handle=SIGKILL"}, "names SIGKILL, which cannot be handled"},
    {{"--signals_to_handle=SIGTREM"},
     "names 'SIGTREM', which is not a signal; did you mean SIGTERM?"},
    {{"--signals_to_handle="}, "names '', which is not a signal"},
    {{"--rdzv_endpoint=node:x"}, "has a port that is not an integer from 0 to 65535"},
    {{"--rdzv_endpoint=tcp://node:29400"}, "is not HOST:PORT: no scheme, path, user or space"},
    {{"--rdzv_endpoint=node 29400"}, "is not HOST:PORT: no scheme, path, user or space"},
    {{"--rdzv_endpoint=node:"}, "has a port that is not"},
    {{"--rdzv_endpoint=[::1"}, "has an unmatched '['"},
    {{"--rdzv_endpoint=127.0.0.1:22:3"}, "is neither HOST:PORT nor an IPv6 address"},
    {{"--rdzv_endpoint=[127.0.0.1:22]:3"}, "is neither HOST:PORT nor an IPv6 address"},
    {{"--rdzv_endpoint=fd91::1:29440"},
     "has no brackets around its address; write [fd91::1]:29440"},
    {{"--rdzv_endpoint=:29500"}, "names no host"},
    {{"--rdzv_endpoint=a:1,"}, "names no host between its commas"},
    {{"--rdzv_endpoint=a:1,b:x"}, "has a port that is not"},
    {{"--rdzv_conf=rank=0,timeout"}, "'timeout' has no value; write timeout=SECONDS"},
    {{"--rdzv_conf=rank"}, "'rank' has no value; write rank=VALUE"},
    {{"--rdzv_conf=timeout=1,,rank=0"}, "is not a list like key=value,key=value: ''"},
    {{"--rdzv_conf=timeout=1,timeout=2"}, "names 'timeout' twice"},
    {{"--master_port=65536"}, "is not an integer from 0 to 65535"},
    {{"--start_method=forks"}, "must be spawn, fork or forkserver; did you mean fork?"},
    {{"--numa_binding=none"}, "must be node, socket, exclusive or core-complex"},
    {{"--affinity=core"}, "is neither auto, none, cores, exclusive, node, socket, l3 nor a list"},
    {{"--affinity=0-3;"}, "nor a list of CPUs for each local rank like 0-7;8-15"},
    {{"--affinity="}, "--affinity=: is neither"},
    {{"--exit_code=job"}, "must be torchrun or worker"},
    {{"--rdzv_backend=zeus"}, "--rdzv_backend=zeus: must be static, c10d, etcd or etcd-v2"},
    {{"--rdzv_backend=etcd3"}, "must be static, c10d, etcd or etcd-v2; did you mean etcd?"},
    {{"--security=opn"}, "--security=opn: can only be open"},
    {{"--agent_store=False"}, "must be on or off"},
    {{"--agent_store=no"}, "--agent_store=no: must be on or off\n"},
    {{"--omp_num_threads=0"}, "is neither auto nor an integer from 1 to 4096"},
    {{"--events="}, "--events=: is empty"},
};

}  // namespace

TEST_SUITE("command line") {
  TEST_CASE("command line: options are parsed in every spelling that argparse accepts") {
    for (const auto& good : kGood) {
      CAPTURE(good.arguments);
      CHECK(options_of(with_program(good.arguments)) == changed(good.expected));
    }
  }

  TEST_CASE("command line: the problem of an invalid option quotes it and suggests a remedy") {
    for (const auto& bad : kBad) {
      const auto problems = problems_of(with_program(bad.arguments));
      CHECK_MESSAGE(contains(problems, bad.text), problems, " should contain ", bad.text);
    }
  }

  TEST_CASE("command line: all arguments after the program belong to the program") {
    const auto options = options_of({"-m", "mod", "--max_restarts=3", "--", "-h", "--version"});
    CHECK(options.program == "mod");
    CHECK(options.program_arguments == Strings{"--max_restarts=3", "--", "-h", "--version"});
    CHECK(options.max_restarts == 0);
  }

  TEST_CASE("command line: two dashes end the options") {
    const auto options = options_of({"--", "train.py", "--", "b"});
    CHECK(options.program == "train.py");
    CHECK(options.program_arguments == Strings{"--", "b"});
    CHECK(options_of({"--", "--odd"}).program == "--odd");
  }

  TEST_CASE("command line: a missing program is reported even after two dashes") {
    for (const Strings& arguments : {Strings{}, Strings{"--standalone"}, Strings{"--"}}) {
      CHECK(contains(problems_of(arguments), "no program given"));
    }
  }

  TEST_CASE("command line: a last option without a value is reported") {
    CHECK(contains(problems_of({"--max_restarts"}), "--max_restarts needs a value: N"));
    CHECK(contains(problems_of({"-r"}), "-r needs a value"));
  }

  TEST_CASE("command line: all invalid values are reported together") {
    const auto problems = problems_of({"--max_restarts=x", "-r9", "--nnodes=0", "train.py"});
    CHECK(contains(problems, "--max_restarts=x"));
    CHECK(contains(problems, "--redirects=9"));
    CHECK(contains(problems, "--nnodes=0"));
    CHECK(contains(problems, "Try 'ddprun --help'."));
  }

  TEST_CASE("command line: --help and --version take precedence over invalid options") {
    for (const Strings& arguments : {Strings{"--help"}, Strings{"-h"}, Strings{"-r9", "--he"},
                                     Strings{"-mh", "x"}, Strings{"--help", "--nonsense"}}) {
      const auto parsed = parse_command_line(arguments, lookup_in({}));
      REQUIRE(std::holds_alternative<HelpText>(parsed));
      CHECK(contains(std::get<HelpText>(parsed).text, "Usage: ddprun"));
    }
    const auto parsed = parse_command_line({"--version"}, lookup_in({}));
    CHECK(std::get<HelpText>(parsed).text.rfind("ddprun 0", 0) == 0);
  }

  TEST_CASE("command line: control characters of an argument are not printed") {
    CHECK(contains(problems_of({"--\x1b[31m"}), "--\\x1b[31m"));
  }
}

}  // namespace command_line_test
