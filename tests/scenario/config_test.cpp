// ddprun with a configuration file, as users run it.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace ddprun::test;

namespace {

/// A folder with a file c.json.
class ConfigFolder {
 public:
  explicit ConfigFolder(const std::string& text) { write_file(file(), text); }
  std::string file() const { return folder_ / "c.json"; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TemporaryFolder folder_;
};

ProgramResult run_config(const ConfigFolder& config, std::vector<std::string> arguments = {},
                         const std::map<std::string, std::string>& environment = {}) {
  arguments.insert(arguments.begin(), {in_bin("ddprun"), "--config=" + config.file()});
  return run_program(arguments, environment);
}

}  // namespace

TEST_SUITE("configuration file") {
  TEST_CASE(
      "one file says what runs, how often, where its output goes and with which environment") {
    const ConfigFolder config(R"({
      "version": 1,
      "job": {"command": ["/bin/sh", "-c",
                          "echo $${RANK} $${COLOUR} $${GONE-none} ${local_rank} ${NUMBER:-7}"]},
      "defaults": {"nproc_per_node": 2, "environment": {"COLOUR": "blue", "GONE": null}},
      "logs": {"log_dir": "${FOLDER}/logs", "redirects": {"1": 1}, "events": "${FOLDER}/events"}
    })");
    const auto result =
        run_config(config, {}, {{"FOLDER", config / ""}, {"GONE", "not to be seen"}});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "[default0]:0 blue none 0 7\n"));
    CHECK_FALSE(contains(result.output, "1 blue"));
    CHECK(contains(read_file(config / "events"), "\"event\":\"run_finished\""));
    CHECK(std::filesystem::exists(config / "logs"));
  }

  TEST_CASE("restarts are the file's, and an argument beats it") {
    const ConfigFolder config(R"({"version": 1, "job": {"command": ["/bin/sh", "-c", "exit 3"]},
      "restart": {"max_restarts": 1, "exit_code": "worker"}})");
    const auto result = run_config(config);
    CHECK(result.exit_code == 3);
    CHECK(count(result.output, "restarting:") == 1);
    CHECK(count(run_config(config, {"--max_restarts=0"}).output, "restarting:") == 0);
    CHECK(run_config(config, {"--no_python", "/bin/true"}).exit_code == 0);
  }

  TEST_CASE("a node in a file is found by its name, and a dry run says how") {
    const ConfigFolder config(R"({"version": 1, "job": {"command": ["/bin/true"]},
      "nodes": [{"name": "only", "nproc_per_node": 3}]})");
    const auto stranger = run_config(config);
    CHECK(stranger.exit_code == 2);
    CHECK(contains(stranger.output, "none of its nodes is this machine"));
    const auto known = run_config(config, {"--dry_run"}, {{"DDPRUN_NODE", "only"}});
    CHECK(known.exit_code == 0);
    CHECK(contains(known.output, "3 x /bin/true"));
    CHECK(contains(known.output, "note: this machine is node only (1 of 1) of " + config.file() +
                                     ": DDPRUN_NODE=only says so\n"));
    CHECK(contains(known.output, "configuration: hash "));
  }

  TEST_CASE("a wrong file is told with all its problems, and nothing starts") {
    const ConfigFolder config(
        "{\"version\": 1,\n\"jobs\": {},\n\"restart\": {\"max_restarts\": -1}}");
    const auto result = run_config(config, {"/bin/echo", "started"});
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, config.file() + ":2:1: jobs: unknown key; did you mean job?"));
    CHECK(contains(result.output, config.file() + ":3:29: restart.max_restarts: the number -1"));
    CHECK_FALSE(contains(result.output, "started\n"));
  }

  TEST_CASE("what is no readable file is told by its name") {
    const TemporaryFolder folder;
    const auto with = [](const std::string& path) {
      return run_program({in_bin("ddprun"), "--config", path, "/bin/true"});
    };
    const auto missing = with(folder / "none");
    CHECK(missing.exit_code == 2);
    CHECK(contains(missing.output, "none: No such file or directory"));
    CHECK(contains(with(folder.path()).output, "is not a regular file"));
    write_file(folder / "long", std::string(3 << 20, ' '));
    CHECK(contains(with(folder / "long").output, "more than the 1048576 that are read"));
  }

  TEST_CASE("the example for one node runs") {
    const TemporaryFolder folder;
    const auto run =
        "exec " + in_bin("ddprun") + " --config " DDPRUN_SOURCE_DIR "/configs/single_node.json";
    const auto result =
        run_program({"/bin/sh", "-c", "cd " + folder.path().string() + " && unset LOGS && " + run});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "[default0]:toy ("));
    CHECK(std::filesystem::exists(folder / "logs"));
  }

  TEST_CASE("config check, schema and convert answer, and a program called config can be run") {
    const ConfigFolder config(R"({"version": 1, "defaults": {"nproc_per_node": 2}})");
    const auto ddprun = in_bin("ddprun");
    const auto checked = run_program({ddprun, "config", "check", config.file()});
    CHECK(checked.exit_code == 0);
    CHECK(contains(checked.output, "nproc_per_node = 2"));
    CHECK(run_program({ddprun, "config", "check", config / "none"}).exit_code == 2);
    CHECK(contains(run_program({ddprun, "config", "schema"}).output, "\"nproc_per_node\""));
    write_file(config / "hosts", "a slots=2\nb slots=2\n");
    const auto converted = run_program({ddprun, "config", "convert", "hostfile", config / "hosts"});
    write_file(config.file(), converted.output);
    CHECK(contains(
        run_config(config, {"--dry_run", "--node_rank=1", "--nnodes=1", "/bin/true"}).output,
        "--node_rank=1: "));
    write_file(config / "config", "#!/bin/sh\necho a program\n", true);
    const auto script =
        "cd " + (config / "") + " && " + ddprun + " ./config && " + ddprun + " -- config";
    CHECK(count(run_program({"/bin/sh", "-c", script}).output, "[default0]:a program\n") == 2);
  }
}
