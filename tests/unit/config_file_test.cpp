#include "tests/support/config_texts.hpp"

#include <doctest/doctest.h>

namespace config_file_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Returns the problems of a file with this text after its version.
std::string problems_with(const std::string& members) {
  return config_problems("{\"version\": 1,\n" + members + "}");
}

}  // namespace

TEST_SUITE("configuration file") {
  TEST_CASE("configuration file: all sections and comments and a $schema key are accepted") {
    const auto file = config_of(R"({
      // The cluster in the cellar.
      "$schema": "./ddprun.schema.json",
      "version": 1,
      "job": {"command": ["trainer", "--epochs", 3], "rdzv_id": "${JOB:-cellar}"},
      "rendezvous": {"nnodes": "1:2", "rdzv_backend": "c10d", "rdzv_endpoint": "a:29400",
                     "rdzv_conf": {"join_timeout": 60}},
      "defaults": {"nproc_per_node": 2, "omp_num_threads": "auto",
                   "environment": {"NCCL_DEBUG": "WARN", "DEPTH": 3, "DISPLAY": null}},
      "nodes": [{"name": "a", "address": "10.0.0.1"},
                {"name": "b[1-2]", "address": "10.0.0.[2-3]", "nproc_per_node": "cpu"}],
      "restart": {"max_restarts": 3, "exit_code": "worker"},
      "signals": {"signals_to_handle": ["SIGTERM", "SIGINT"], "shutdown_timeout": 2.5},
      "logs": {"log_dir": "/tmp/logs", "redirects": {"0": 3, "1": 1}, "tee": 0}
    })");
    REQUIRE(file.nodes.size() == 3);
    CHECK(file.nodes[2].name == "b2");
    CHECK(file.nodes[2].address == "10.0.0.3");
    CHECK(file.nodes[2].entry == 1);
  }

  TEST_CASE("configuration file: all problems are reported in the order of the file") {
    CHECK(problems_with("\"job\": {\"command\": \"trainer\", \"role\": 3},\n"
                        "\"restart\": {\"max_restart\": 3, \"exit_code\": \"workers\"},\n"
                        "\"restart\": {},\n"
                        "\"nodes\": [{\"name\": \"a\", \"nproc_per_node\": 0}, {}]") ==
          "c.json:2:20: job.command: expected an array of the program and its arguments, found "
          "the string \"trainer\"\n"
          "c.json:2:39: job.role: expected a string, found the number 3\n"
          "c.json:3:13: restart.max_restart: unknown key; did you mean max_restarts?\n"
          "c.json:3:44: restart.exit_code: the string \"workers\" must be torchrun or worker; did "
          "you mean worker?\n"
          "c.json:4:1: restart: the key occurs twice; first in line 3\n"
          "c.json:5:43: nodes[0].nproc_per_node: the number 0 is neither a number from 1 to 1024 "
          "nor auto, cpu or gpu\n"
          "c.json:5:47: nodes[1]: has no name");
  }

  TEST_CASE("configuration file: a problem has its position and path and a remedy") {
    struct Case {
      std::string members;
      std::string expected;
    };
    const std::vector<Case> cases = {
        {"\"jobs\": {}", "2:1: jobs: unknown key; did you mean job?"},
        {"\"nproc_per_node\": 2", "2:1: nproc_per_node: belongs to section defaults"},
        {"\"command\": []", "2:1: command: belongs to section job"},
        {"\"job\": {\"max_restarts\": 1}", "2:9: job.max_restarts: belongs to section restart"},
        {"\"job\": {\"dry_run\": true}", "2:9: job.dry_run: is accepted on the command line only"},
        {"\"job\": []", "2:8: job: expected an object, found an array"},
        {"\"job\": {\"command\": []}", "2:20: job.command: names no program"},
        {"\"job\": {\"command\": [\"x\", true]}",
         "2:26: job.command[1]: expected a string, found true"},
        {"\"job\": {\"command\": [\"x\", \"$y\"]}",
         "2:26: job.command[1]: has a '$' that begins neither ${NAME} nor $$, a dollar sign"},
        {"\"job\": {\"module\": 1}",
         "2:19: job.module: expected true or false, found the number 1"},
        {"\"job\": {\"id\": \"x\"}", "2:9: job.id: unknown key; did you mean rdzv_id?"},
        {R"("ssh": {"port": 0})", "2:17: ssh.port: 0 is not an integer from 1 to 65535"},
        {R"("ssh": {"user": 7})", "2:17: ssh.user: expected a string, found the number 7"},
        {R"("ssh": {"options": "-v"})",
         "2:20: ssh.options: expected an array, found the string \"-v\""},
        {R"("ssh": {"options": ["-v", 1]})",
         "2:27: ssh.options[1]: expected a string, found the number 1"},
        {R"("ssh": {"programm": "d"})", "2:9: ssh.programm: unknown key; did you mean program?"},
        {"\"rendezvous\": {\"endpoint\": \"a\"}",
         "2:16: rendezvous.endpoint: unknown key; did you mean rdzv_endpoint?"},
        {"\"rendezvous\": {\"rdzv-endpoint\": \"a\"}",
         "2:16: rendezvous.rdzv-endpoint: unknown key; did you mean rdzv_endpoint?"},
        {"\"rendezvous\": {\"nnodes\": \"3:2\"}",
         "2:26: rendezvous.nnodes: the string \"3:2\" has a minimum above its maximum"},
        {"\"rendezvous\": {\"master_port\": 70000}",
         "2:31: rendezvous.master_port: the number 70000 is not an integer from 0 to 65535"},
        {"\"restart\": {\"max_restarts\": 1.5}",
         "2:29: restart.max_restarts: the number 1.5 is not an integer from 0 to 1000000"},
        {"\"restart\": {\"max_restarts\": \"3\"}",
         "2:29: restart.max_restarts: expected a number, found the string \"3\""},
        {"\"restart\": {\"window\": -1}",
         "2:23: restart.window: the number -1 is not a number of seconds from 0 to 31536000 "
         "(a year)"},
        {"\"ssh\": {\"backoff\": 1}",
         "2:9: ssh.backoff: unknown key; valid are user, port, options, program, "
         "forward_variables"},
        {"\"signals\": {\"signals_to_handle\": [\"SIGTERM\", \"SIGKIL\"]}",
         "2:34: signals.signals_to_handle: an array names 'SIGKIL', which is not a signal; did you "
         "mean SIGKILL?"},
        {"\"signals\": {\"signals_to_handle\": [\"A,B\"]}",
         "2:34: signals.signals_to_handle: the string \"A,B\" contains a separator, one of \",\""},
        {"\"logs\": {\"redirects\": {\"0\": [1]}}",
         "2:23: logs.redirects: expected a string or a number, found an array"},
        {"\"defaults\": {\"environment\": [\"A=1\"]}",
         "2:29: defaults.environment: expected an object, found an array"},
        {"\"defaults\": {\"environment\": {\"RANK\": 1}}",
         "2:30: defaults.environment.RANK: is set by ddprun for each worker"},
        {"\"defaults\": {\"environment\": {\"A=B\": 1}}",
         "2:30: defaults.environment[\"A=B\"]: cannot be the name of a variable"},
        {"\"defaults\": {\"environment\": {\"A\": true}}",
         "2:35: defaults.environment.A: expected a string, a number or null, found true"},
        {"\"ssh\": {\"name\": \"x\"}",
         "2:9: ssh.name: unknown key; valid are user, port, options, program, forward_variables"},
        {R"("nodes": [{"name": "a", "ssh": {"port": 1}}])",
         "2:25: nodes[0] has no key ssh: the section \"ssh\" at the top holds for all nodes"},
        {"\"nodes\": {}", "2:10: nodes: expected an array, found an object"},
        {"\"nodes\": []", "2:10: nodes: has no entry; leave it out"},
        {"\"nodes\": [1]", "2:11: nodes[0]: expected an object, found the number 1"},
        {"\"nodes\": [{\"name\": 1}]",
         "2:20: nodes[0].name: expected a string, found the number 1"},
        {"\"nodes\": [{\"name\": \"a[1-\"}]",
         "2:20: nodes[0].name: the string \"a[1-\" has an unmatched '['"},
        {"\"nodes\": [{\"name\": \"a[1-2]\", \"address\": \"b[1-3]\"}]",
         "2:41: nodes[0].address: stands for 3 addresses of 2 nodes"},
        {"\"nodes\": [{\"name\": \"a[1-2]\"}, {\"name\": \"a2\"}]",
         "2:40: nodes[1].name: a2 occurs twice; first in line 2"},
        {"\"nodes\": [{\"name\": \"a\", \"address\": \"c\"}, {\"name\": \"b\", \"address\": "
         "\"c\"}]",
         "2:67: nodes[1].address: c occurs twice; first in line 2"},
        {"\"nodes\": [{\"name\": \"a\", \"role\": \"spare\"}]",
         "2:25: nodes[0].role: belongs to section job"},
        {"\"nodes\": [{\"name\": \"a\"}], \"rendezvous\": {\"nnodes\": 2}",
         "2:52: rendezvous.nnodes: 2 are more than the 1 nodes of the file"},
        {"\"nodes\": [{\"name\": \"a\", \"address\": \"10.0.0.1\"}, {\"name\": \"b\", \"address\": "
         "\"127.0.0.1\"}]",
         "2:74: nodes[1].address: 127.0.0.1 is this machine alone, but other nodes have addresses "
         "of the network"},
        {"\"nodes\": [{\"name\": \"a[1-2]\", \"address\": \"10.0.0.[1-2]\"}], \"rendezvous\": "
         "{\"rdzv_endpoint\": \"localhost:1\"}",
         "2:91: rendezvous.rdzv_endpoint: localhost is this machine alone, but other nodes have "
         "addresses of the network"}};
    for (const auto& bad : cases) {
      CHECK(problems_with(bad.members) == "c.json:" + bad.expected);
    }
  }

  TEST_CASE("configuration file: a missing or unsupported version is rejected") {
    CHECK(config_problems("{}") == "c.json:1:1: version is missing: write \"version\": 1");
    CHECK(config_problems("{\"version\": 2}") ==
          "c.json:1:13: version: expected 1, the only supported version, found the "
          "number 2");
    CHECK(config_problems("[]") == "c.json:1:1: expected an object, found an array");
    CHECK(config_problems("{") ==
          "c.json:1:2: expected a key in double quotes, found the end of the file");
  }

  TEST_CASE("configuration file: problems beyond a limit are counted instead of listed") {
    std::string members = "\"job\": {\"x0\": 0";
    for (int i = 1; i < 60; ++i) members += ", \"x" + std::to_string(i) + "\": 0";
    const auto lines = split(problems_with(members + "}"), '\n');
    REQUIRE(lines.size() == kJsonProblemsMax + 1);
    CHECK(lines.back() == "c.json: and 10 more");
  }

  TEST_CASE("configuration file: the number of nodes is limited") {
    const auto text = problems_with("\"nodes\": [{\"name\": \"a[1-16384]\"},\n{\"name\": \"b\"}]");
    CHECK(text == "c.json:3:10: nodes[1].name: exceeds the limit of 16384 nodes");
  }
}

}  // namespace config_file_test
