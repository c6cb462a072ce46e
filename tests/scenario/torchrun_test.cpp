// ddprun under the conditions of torchrun's own tests: each variable of the environment, macros,
// streams to files and console, failures and restarts.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

namespace torchrun_test {

using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

using Variables = std::map<std::string, std::string>;

/// Parses the output of `env`.
Variables parse_environment(const std::string& text) {
  Variables variables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

/// Environment of each worker of a run with these options, by rank; without the variables of this
/// test.
std::vector<Variables> environments(std::vector<std::string> options, int workers,
                                    const Variables& given = {}) {
  const TemporaryFolder folder;
  options.insert(options.end(), {"--nproc_per_node=" + std::to_string(workers)});
  const auto file = folder / "env.";
  const auto dump = "env >" + file;
  const auto result = run_program(launch(options, dump + "$DDPRUN_CONTROL_SLOT"), given);
  REQUIRE_MESSAGE(result.exit_code == 0, result.output);
  const auto before = run_program({"/usr/bin/env"}, given);
  const auto own = parse_environment(before.output);
  std::vector<Variables> all;
  for (int worker = 0; worker < workers; ++worker) {
    auto variables = parse_environment(read_file(file + std::to_string(worker)));
    std::erase_if(variables, [&](const auto& variable) {
      const auto found = own.find(variable.first);
      return found != own.end() && found->second == variable.second;
    });
    // Variables of the shell, and the marker of the tests.
    for (const char* name : {"_", "PWD", "SHLVL", "OLDPWD"}) variables.erase(name);
    std::erase_if(variables,
                  [](const auto& variable) { return variable.first.starts_with("DDPRUN_"); });
    all.push_back(variables);
  }
  return all;
}

std::string take(Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return "(not set)";
  const auto value = found->second;
  variables.erase(found);
  return value;
}

int own_cpus() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  return CPU_COUNT(&set);
}

}  // namespace

TEST_SUITE("torchrun's environment") {
  TEST_CASE("torchrun: workers get torchrun's variables and PYTHONFAULTHANDLER") {
    const auto all = environments({"--rdzv_id=job", "--max_restarts=2", "--role=trainer"}, 3,
                                  {{"OMP_NUM_THREADS", ""}});
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      auto variables = all[rank];
      const auto error_file = take(variables, "TORCHELASTIC_ERROR_FILE");
      CHECK(error_file.ends_with("/attempt_0/" + std::to_string(rank) + "/error.json"));
      const auto port = take(variables, "MASTER_PORT");
      CHECK(std::stoi(port) > 0);
      CHECK(port == all[0].at("MASTER_PORT"));
      CHECK(take(variables, "PYTHONFAULTHANDLER") == "1");
      const auto text = std::to_string(rank);
      CHECK(variables ==
            Variables{{"GROUP_RANK", "0"},
                      {"GROUP_WORLD_SIZE", "1"},
                      {"LOCAL_RANK", text},
                      {"LOCAL_WORLD_SIZE", "3"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"RANK", text},
                      {"ROLE_NAME", "trainer"},
                      {"ROLE_RANK", text},
                      {"ROLE_WORLD_SIZE", "3"},
                      {"TORCHELASTIC_MAX_RESTARTS", "2"},
                      {"TORCHELASTIC_RESTART_COUNT", "0"},
                      {"TORCHELASTIC_RUN_ID", "job"},
                      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                      {"WORLD_SIZE", "3"}});
    }
  }

  TEST_CASE("torchrun: OMP_NUM_THREADS defaults to 1 for several workers only") {
    const auto threads = [](int workers, const std::string& prefix) {
      auto arguments =
          launch({"--nproc_per_node=" + std::to_string(workers)}, "echo threads=$OMP_NUM_THREADS.");
      arguments.insert(arguments.begin(), {"/bin/sh", "-c", prefix + "; exec \"$@\"", "sh"});
      const auto output = run_program(arguments).output;
      const auto begin = output.find("threads=");
      return output.substr(begin, output.find('.', begin) - begin);
    };
    CHECK(threads(2, "unset OMP_NUM_THREADS") == "threads=1");
    CHECK(threads(1, "unset OMP_NUM_THREADS") == "threads=");
    CHECK(threads(2, "export OMP_NUM_THREADS=5") == "threads=5");
  }

  TEST_CASE("torchrun: inherited NCCL variables are kept and inherited rank variables replaced") {
    const auto all = environments({}, 2,
                                  {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
                                   {"RANK", "17"},
                                   {"MASTER_PORT", "1"},
                                   {"TORCHELASTIC_RUN_ID", "outer"}});
    CHECK(all[1].count("TORCH_NCCL_ASYNC_ERROR_HANDLING") == 0);
    CHECK(all[1].at("RANK") == "1");
    CHECK(all[1].at("MASTER_PORT") != "1");
    CHECK(all[1].at("TORCHELASTIC_RUN_ID") != "outer");
  }

  TEST_CASE("torchrun: --virtual_local_rank gives each worker LOCAL_RANK=0 and one GPU") {
    const auto all = environments({"--virtual_local_rank"}, 3, {{"CUDA_VISIBLE_DEVICES", ""}});
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      CHECK(all[rank].at("LOCAL_RANK") == "0");
      CHECK(all[rank].at("RANK") == std::to_string(rank));
      CHECK(all[rank].at("LOCAL_WORLD_SIZE") == "3");
      CHECK(all[rank].at("CUDA_VISIBLE_DEVICES") == std::to_string(rank));
    }
  }

  TEST_CASE("torchrun: a dry run shows the environment of the workers") {
    const std::vector<std::string> options = {"--master_port=0", "--rdzv_id=job", "-r1",
                                              "--log_dir=/nowhere"};
    auto arguments = options;
    arguments.insert(arguments.begin(), in_bin("ddprun"));
    arguments.insert(arguments.end(),
                     {"--dry_run", "--nproc_per_node=2", "--no_python", "/bin/true"});
    const auto shown = run_program(arguments).output;
    const TemporaryFolder folder;
    auto real = options;
    real.back() = "--log_dir=" + folder.path().string();
    const auto all = environments(real, 2);
    for (const auto& [name, value] : all[1]) {
      const bool differs = name == "MASTER_PORT" || name == "TORCHELASTIC_ERROR_FILE";
      const auto line = "    " + name + "=" + (differs ? "" : value + "\n");
      CHECK_MESSAGE(contains(shown, line), line);
    }
    CHECK(count(shown, "\n    ") == static_cast<int>(all[1].size()) + 4);  // four differ by rank
  }
}

TEST_SUITE("torchrun's command line") {
  TEST_CASE("torchrun: variables can describe a whole run and arguments override them") {
    const Variables variables = {{"PET_NPROC_PER_NODE", "2"},
                                 {"PET_MAX_RESTARTS", "1"},
                                 {"PET_NNODES", "1"},
                                 {"PET_RDZV_ID", "job"},
                                 {"PET_STANDALONE", "1"},
                                 {"PET_NO_PYTHON", "1"},
                                 {"PET_ROLE", ""},
                                 {"PET_RDZV_BACKEND", "c10d"}};
    const auto result = run_program({in_bin("ddprun"), "/bin/sh", "-c",
                                     "[ $$TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; "
                                     "echo $$RANK of $$WORLD_SIZE: $$TORCHELASTIC_RUN_ID"},
                                    variables);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "[default0]:0 of 2: job\n"));
    CHECK(contains(result.output, "[default1]:1 of 2: job\n"));
    const auto overridden =
        run_program({in_bin("ddprun"), "--nproc-per-node=1", "/bin/echo", "hello"}, variables);
    CHECK(count(overridden.output, "]:hello\n") == 1);
  }

  TEST_CASE("torchrun: auto and cpu start one worker per usable CPU") {
    // Without visible GPUs, which auto would count.
    for (const std::string kind : {"auto", "cpu"}) {
      const auto result = run_program(
          {in_bin("ddprun"), "--nproc_per_node=" + kind, "--no_python", "/bin/echo", "hello"},
          {{"CUDA_VISIBLE_DEVICES", ""}});
      CHECK(count(result.output, "]:hello\n") == own_cpus());
    }
    const auto unknown = run_program({in_bin("ddprun"), "--nproc_per_node=tpus", "/bin/true"});
    CHECK(unknown.exit_code == 2);
    CHECK(contains(unknown.output, "--nproc_per_node=tpus"));
  }

  TEST_CASE("torchrun: macros and double dollar signs are replaced for each worker") {
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", "--no_python", "/bin/echo",
                     "--a=${local_rank}", "$local_rank/x", "$$5", "${other}", "$"});
    for (const std::string rank : {"0", "1"}) {
      CHECK(contains(result.output, "--a=" + rank + " " + rank + "/x $5 ${other} $\n"));
    }
  }

  TEST_CASE("torchrun: all arguments after the program belong to the program") {
    const auto result = run_program(
        {in_bin("ddprun"), "--no_python", "/bin/echo", "--nproc_per_node=2", "--", "--help", "-m"});
    CHECK(contains(result.output, "]:--nproc_per_node=2 -- --help -m\n"));
  }

  TEST_CASE("torchrun: the program can be an interpreter") {
    const TemporaryFolder folder;
    write_file(folder / "script.sh", "echo script $1 $RANK\n");
    const auto result = run_program({in_bin("ddprun"), "--nproc-per-node", "2", "--no-python",
                                     "/bin/sh", folder / "script.sh", "two"});
    CHECK(contains(result.output, "]:script two 0\n"));
    CHECK(contains(result.output, "]:script two 1\n"));
  }

  TEST_CASE("torchrun: --module excludes --no_python and --rdzv_conf accepts quotes") {
    const auto both = run_program({in_bin("ddprun"), "--no_python", "-m", "train"});
    CHECK(both.exit_code == 2);
    CHECK(contains(both.output, "--module and --no_python exclude each other"));
    const auto quoted = run_program(
        {in_bin("ddprun"), "--nnodes=1:1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
         "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'", "--no-python", "/bin/true"});
    CHECK_MESSAGE(quoted.exit_code == 0, quoted.output);
    CHECK(run_program({in_bin("ddprun"), "--nnodes=2:20:30", "/bin/true"}).exit_code == 2);
  }
}

TEST_SUITE("torchrun's streams") {
  TEST_CASE("torchrun: each combination of --redirects and --tee has the right targets") {
    for (int redirect = 0; redirect <= 3; ++redirect) {
      for (int tee = 0; tee <= 3; ++tee) {
        CAPTURE(redirect);
        CAPTURE(tee);
        const TemporaryFolder folder;
        const auto result =
            run_program(launch({"-r", std::to_string(redirect), "-t", std::to_string(tee),
                                "--rdzv_id=job", "--log_dir", folder.path()},
                               "echo out; echo err >&2"));
        const std::string files[] = {"stdout.log", "stderr.log"};
        const std::string words[] = {"out", "err"};
        for (const int bit : {1, 2}) {
          const auto& word = words[bit - 1];
          const bool is_in_file = ((redirect | tee) & bit) != 0;
          const bool is_on_console = (redirect & bit) == 0 || (tee & bit) != 0;
          CHECK(contains(result.output, "[default0]:" + word + "\n") == is_on_console);
          std::string found = "(none)";
          for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
            if (entry.path().filename() == files[bit - 1]) found = read_file(entry.path());
          }
          CHECK(found == (is_in_file ? word + "\n" : "(none)"));
        }
      }
    }
  }

  TEST_CASE("torchrun: a map selects the workers whose streams go to files") {
    const TemporaryFolder folder;
    const auto result = run_program(launch({"--nproc_per_node=3", "-r", "0:3,1:1", "-t", "1:1",
                                            "--rdzv_id=job", "--log_dir", folder.path()},
                                           "echo out $RANK; echo err $RANK >&2"));
    for (const auto* shown : {"out 1", "err 1", "out 2", "err 2"}) {
      CHECK_MESSAGE(contains(result.output, std::string("]:") + shown + "\n"), shown);
    }
    CHECK(count(result.output, " 0\n") == 0);
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.path().extension() == ".log") files.push_back(read_file(entry.path()));
    }
    std::sort(files.begin(), files.end());
    CHECK(files == std::vector<std::string>{"err 0\n", "out 0\n", "out 1\n"});
  }

  TEST_CASE("torchrun: a console filter does not affect files") {
    const TemporaryFolder folder;
    const auto result = run_program(launch(
        {"--nproc_per_node=3", "-t3", "--local-ranks-filter=0,2", "--log_dir", folder.path()},
        "echo out $RANK"));
    CHECK(contains(result.output, "]:out 0\n"));
    CHECK_FALSE(contains(result.output, "]:out 1\n"));
    CHECK(contains(result.output, "]:out 2\n"));
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      files += entry.path().filename() == "stdout.log" ? 1 : 0;
    }
    CHECK(files == 3);
  }
}

TEST_SUITE("torchrun's faults") {
  TEST_CASE("torchrun: a failed worker restarts all workers with a new restart count") {
    const auto result = run_program(launch(
        {"--nproc_per_node=3", "--max_restarts=5"},
        "echo start $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT -lt 2 ] || exit 0; "
        "[ $RANK != 1 ] || exit 1; exec sleep 1000"));
    CHECK(result.exit_code == 0);
    // The others may have been stopped before they printed anything.
    for (const std::string attempt : {"0", "1"}) {
      CHECK(contains(result.output, "[default1]:start " + attempt + "\n"));
    }
    CHECK(count(result.output, "]:start 2\n") == 3);
    CHECK_FALSE(contains(result.output, "]:start 3\n"));
  }

  TEST_CASE("torchrun: a failure of all workers uses one restart per attempt") {
    const auto result =
        run_program(launch({"--nproc_per_node=2", "--max_restarts=2", "--shutdown_timeout=60"},
                           "echo attempt $TORCHELASTIC_RESTART_COUNT; exit 1"));
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "]:attempt 2\n"));
    CHECK_FALSE(contains(result.output, "]:attempt 3\n"));
    CHECK(contains(result.output, "FAILED after 3 attempts"));
  }

  TEST_CASE("torchrun: a run succeeds even if workers end at different times") {
    const TemporaryFolder folder;
    // Each waits for the next; rank 2 ends first.
    const auto result = run_program(
        launch(
            {"--nproc_per_node=3"},
            "[ $RANK = 2 ] || until [ -e $F.$((RANK + 1)) ]; do sleep 0.01; done; touch $F.$RANK"),
        {{"F", folder / "done"}});
    CHECK(result.exit_code == 0);
    CHECK(fs::exists(folder / "done.0"));
  }

  TEST_CASE("torchrun: the report names the first failure and its signal") {
    const std::map<std::string, std::string> table = {
        {"exit 7", "exit code 7"},
        {"kill -SEGV $$", "killed by signal 11, SIGSEGV"},
        {"kill -KILL $$", "killed by signal 9, SIGKILL"},
        {"kill -ABRT $$", "killed by signal 6, SIGABRT"},
        {"kill -TERM $$", "killed by signal 15, SIGTERM"},
        {"kill -BUS $$", "killed by signal 7, SIGBUS"},
    };
    for (const auto& [script, ended] : table) {
      const auto result = run_program(launch({}, script));
      CHECK(result.exit_code == 1);
      CHECK_MESSAGE(contains(result.output, "  ended     : " + ended + "\n"), result.output);
    }
  }
}

}  // namespace torchrun_test
