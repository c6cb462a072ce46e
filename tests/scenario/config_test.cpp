// The real ddprun with a configuration file.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>

#include <fstream>

namespace config_test {

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
  TEST_CASE("config: program and output and environment are read from the file") {
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

  TEST_CASE("config: an argument overrides the restarts of the file") {
    const ConfigFolder config(R"({"version": 1, "job": {"command": ["/bin/sh", "-c", "exit 3"]},
      "restart": {"max_restarts": 1, "exit_code": "worker"}})");
    const auto result = run_config(config);
    CHECK(result.exit_code == 3);
    CHECK(count(result.output, "restarting:") == 1);
    CHECK(count(run_config(config, {"--max_restarts=0"}).output, "restarting:") == 0);
    CHECK(run_config(config, {"--no_python", "/bin/true"}).exit_code == 0);
  }

  TEST_CASE("config: DDPRUN_NODE selects the node of a file") {
    const ConfigFolder config(R"({"version": 1, "job": {"command": ["/bin/true"]},
      "nodes": [{"name": "only", "nproc_per_node": 3}]})");
    const auto stranger = run_config(config);
    CHECK(stranger.exit_code == 2);
    CHECK(contains(stranger.output, "none of its nodes is this machine"));
    const auto known = run_config(config, {"--dry_run"}, {{"DDPRUN_NODE", "only"}});
    CHECK(known.exit_code == 0);
    CHECK(contains(known.output, "3 x /bin/true"));
    CHECK(contains(known.output, "note: this machine is node only (1 of 1) of " + config.file() +
                                     ": set by DDPRUN_NODE=only\n"));
    CHECK(contains(known.output, "configuration: hash "));
  }

  TEST_CASE("config: a check and a dry run report the same problems as a run") {
    const ConfigFolder config(R"({"version": 1, "nodes": [
      {"name": "one", "address": "127.0.0.2", "nproc_per_node": 2},
      {"name": "two", "address": "127.0.0.3"}]})");
    const auto refused_alike = [&](const std::vector<std::string>& options,
                                   const std::string& problem) {
      INFO(problem);
      auto check = options;
      check.insert(check.begin(), {in_bin("ddprun"), "config", "check", config.file()});
      auto dry = options;
      dry.insert(dry.begin(), "--dry_run");
      for (const auto& result :
           {run_config(config, options), run_config(config, dry), run_program(check)}) {
        CHECK(result.exit_code == 2);
        CHECK_MESSAGE(contains(result.output, problem), result.output);
      }
    };
    const std::vector<std::string> program = {"--no_python", "/bin/true"};
    const auto with = [&](std::vector<std::string> options) {
      options.insert(options.end(), program.begin(), program.end());
      return options;
    };
    const auto secret = config / "key";
    refused_alike(program, "ddprun: " + config.file() + ": none of its nodes is this machine");
    refused_alike(with({"--node_name=one"}),
                  "ddprun: 2 nodes (from " + config.file() + ") need a shared secret: ");
    refused_alike(with({"--node_name=one", "--secret_file=" + secret}),
                  "ddprun: --secret_file=" + secret +
                      ": No such file or directory; 'ddprun keygen " + secret + "' writes one");
    write_file(secret, std::string(64, 's'));
    std::filesystem::permissions(secret, std::filesystem::perms(0644));
    refused_alike(with({"--node_name=one", "--secret_file=" + secret}),
                  "ddprun: --secret_file=" + secret + ": is open to others than its owner");
    refused_alike({"--node_name=one", "--security=open", "--no_python", "/no/program"},
                  "ddprun: /no/program: no such file");
    refused_alike(with({"--node_name=one", "--security=open", "--log_dir=" + config.file()}),
                  "ddprun: --log_dir: folder " + config.file() + "/none_");
    const auto link = config / "link";
    for (const auto* target : {"nowhere", "link"}) {
      std::filesystem::remove(link);
      std::filesystem::create_symlink(target, link);
      refused_alike(
          with({"--node_name=one", "--security=open", "--log_dir=" + link + "/logs"}),
          "ddprun: --log_dir: " + link + " is a symbolic link to " + target +
              ", which is not an accessible folder; create that folder, or correct the link\n");
    }
    refused_alike(with({"--node_name=one", "--security=open", "--events=/no/folder/events"}),
                  "ddprun: --events=/no/folder/events: cannot be written: No such file");
    // Reported together.
    const std::vector<std::string> all = {"--node_name=one",
                                          "--rdzv_backend=etcd",
                                          "--rdzv_endpoint=127.0.0.1",
                                          "--secret_file=" + secret,
                                          "--rdzv_conf=protocol=https,cacert=/no/ca,cert=/no/cert",
                                          "--log_dir=" + link,
                                          "--events=/no/folder/events",
                                          "--no_python",
                                          "/no/program"};
    for (const std::string problem :
         {"--rdzv_id is missing", "/no/program: no such file", "--secret_file=",
          "--rdzv_conf=cacert=", "--rdzv_conf=cert=", "--log_dir: ", "--events="}) {
      refused_alike(all, "ddprun: " + problem);
    }
    // A file without a program is checked like any other.
    const auto checked =
        run_program({in_bin("ddprun"), "config", "check", config.file(), "--node_name=one"});
    CHECK(checked.exit_code == 2);
    CHECK(contains(checked.output, "no command: a program must be given\n"));
    CHECK(contains(checked.output,
                   "ddprun: 2 nodes (from " + config.file() + ") need a shared secret: "));
  }

  TEST_CASE("config: a dry run lists all nodes with their ranks") {
    const ConfigFolder config(R"({"version": 1, "security": {"mode": "open"},
      "rendezvous": {"master_port": 4711},
      "defaults": {"nproc_per_node": 2}, "job": {"command": ["/bin/true"]},
      "nodes": [{"name": "one", "address": "127.0.0.2"},
                {"name": "two", "address": "127.0.0.3", "nproc_per_node": 3},
                {"name": "three"}]})");
    const auto planned = run_config(config, {"--dry_run", "--node_name=two"});
    CHECK(planned.exit_code == 0);
    CHECK(contains(planned.output,
                   "nodes: 3, meeting at 127.0.0.2:4711\n"
                   "  0: one (127.0.0.2), 2 workers, ranks 0-1\n"
                   "  1: two (127.0.0.3), 3 workers, ranks 2-4, this machine\n"
                   "  2: three, 2 workers, ranks 5-6\n"));
    CHECK(contains(planned.output, "node 1, rank 4\n"));
    CHECK(contains(planned.output, "    WORLD_SIZE=7\n"));
    CHECK(contains(planned.output, "    GROUP_RANK=1\n"));
  }

  TEST_CASE("config: an invalid file is reported with all problems and no worker starts") {
    const ConfigFolder config(
        "{\"version\": 1,\n\"jobs\": {},\n\"restart\": {\"max_restarts\": -1}}");
    const auto result = run_config(config, {"/bin/echo", "started"});
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, config.file() + ":2:1: jobs: unknown key; did you mean job?"));
    CHECK(contains(result.output, config.file() + ":3:29: restart.max_restarts: the number -1"));
    CHECK_FALSE(contains(result.output, "started\n"));
  }

  TEST_CASE("config: an unreadable file is reported with its name") {
    const TemporaryFolder folder;
    const auto with = [](const std::string& path) {
      return run_program({in_bin("ddprun"), "--config", path, "/bin/true"});
    };
    const auto missing = with(folder / "none");
    CHECK(missing.exit_code == 2);
    CHECK(contains(missing.output, "none: No such file or directory"));
    CHECK(contains(with(folder.path()).output, "is not a regular file"));
    write_file(folder / "long", std::string(3 << 20, ' '));
    CHECK(contains(with(folder / "long").output, "bytes; the limit is 1048576"));
  }

  TEST_CASE("config: configs/single_node.json runs") {
    const TemporaryFolder folder;
    const auto run =
        "exec " + in_bin("ddprun") + " --config " DDPRUN_SOURCE_DIR "/configs/single_node.json";
    const auto result =
        run_program({"/bin/sh", "-c", "cd " + folder.path().string() + " && unset LOGS && " + run});
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "[default0]:toy ("));
    CHECK(std::filesystem::exists(folder / "logs"));
  }

  TEST_CASE("config: the elastic examples can resume with another number of workers") {
    for (const char* name : {"elastic.json", "etcd.json"}) {
      const auto text = read_file(std::string(DDPRUN_SOURCE_DIR "/configs/") + name);
      CHECK_MESSAGE(contains(text, "\"--global_batch_size="), name);
    }
  }

  TEST_CASE("config: 'ddprun config' runs a subcommand and a program named config can be run") {
    const ConfigFolder config(R"({"version": 1, "defaults": {"nproc_per_node": 2}})");
    const auto ddprun = in_bin("ddprun");
    const auto checked = run_program({ddprun, "config", "check", config.file()});
    CHECK(checked.exit_code == 0);
    CHECK(contains(checked.output, "nproc_per_node = 2"));
    CHECK(run_program({ddprun, "config", "check", config / "none"}).exit_code == 2);
    CHECK(contains(run_program({ddprun, "config", "schema"}).output, "\"nproc_per_node\""));
    write_file(config / "hosts", "a slots=2\nb slots=2\n");
    const auto convert = ddprun + " config convert hostfile " + config / "hosts";
    const auto notes = run_program({"/bin/sh", "-c", convert + " >" + config.file()});
    CHECK(contains(notes.output, "'ddprun keygen run.key'"));
    CHECK(contains(
        run_config(config, {"--dry_run", "--node_rank=1", "--nnodes=1", "/bin/true"}).output,
        "--node_rank=1: "));
    write_file(config / "config", "#!/bin/sh\necho a program\n", true);
    const auto script =
        "cd " + (config / "") + " && " + ddprun + " ./config && PATH=$PWD " + ddprun + " -- config";
    CHECK(count(run_program({"/bin/sh", "-c", script}).output, "[default0]:a program\n") == 2);
  }
}

}  // namespace config_test
