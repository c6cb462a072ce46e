// Error files: those of workers for the agent, and the one of the agent for its parent launcher.
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace error_file_test {

using namespace ddprun::test;
using nlohmann::json;

namespace {

/// A script that records an error like torchelastic's decorator, and then fails.
std::string record_and_fail(const std::string& message) {
  const json document = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", "  File a.py, line 7"}, {"timestamp", "1795227640"}}}}}};
  return "echo '" + document.dump() + "' >$TORCHELASTIC_ERROR_FILE; exit 3";
}

}  // namespace

TEST_SUITE("error files") {
  TEST_CASE("error files: the report contains a worker's recorded error and time") {
    const auto result = run_program(launch({}, record_and_fail("KeyError: boom")));
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "  message   : KeyError: boom\n"));
    CHECK(contains(result.output, "  recorded  : 2026-11-21 02:20:40 UTC\n"));
    CHECK(contains(result.output, "    |   File a.py, line 7\n"));
  }

  TEST_CASE("error files: an error caused by a peer is not the root cause even if it is first") {
    // Rank 1 has recorded its error and then waits; with 1000 seconds, longer than its grace
    // period.
    for (const std::string seconds : {"0.1", "1000"}) {
      CAPTURE(seconds);
      const TemporaryFolder folder;
      const auto culprit = record_and_fail("KeyError: boom");
      const auto result = run_program(
          launch({"--nproc_per_node=2"},
                 "if [ $RANK = 1 ]; then ( " + culprit + " ); touch $RECORDED; sleep " + seconds +
                     "; exit 3; fi; until [ -e $RECORDED ]; do sleep 0.01; done; "
                     "echo 'RuntimeError: [gloo/transport/tcp/pair.cc:598] closed' >&2; exit 1"),
          {{"RECORDED", folder / "recorded"}});
      INFO(result.output);
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "\n  rank      : 1 "));
      CHECK(contains(result.output, "  message   : KeyError: boom\n"));
      CHECK(contains(result.output, "\n  rank 0    : exit code 1"));
    }
  }

  TEST_CASE("error files: the agent passes the root cause to its parent launcher") {
    const TemporaryFolder folder;
    const auto script = "[ $RANK = 1 ] || sleep 1000; echo file=$TORCHELASTIC_ERROR_FILE; " +
                        record_and_fail("KeyError: boom");
    const auto result = run_program(launch({"--nproc_per_node=2"}, script),
                                    {{"TORCHELASTIC_ERROR_FILE", folder / "error.json"}});
    CHECK(result.exit_code == 1);
    CHECK_FALSE(contains(result.output, "file=" + folder.path().string()));
    const auto message = json::parse(read_file(folder / "error.json")).at("message");
    CHECK(message.at("message") == "KeyError: boom");
    CHECK(message.at("errorCode") == 3);
    CHECK(message.at("extraInfo").at("timestamp") == "1795227640");
  }

  TEST_CASE("error files: a nested ddprun passes the root cause to the outer ddprun") {
    auto inner = launch({"--nproc_per_node=2"}, record_and_fail("KeyError: boom"));
    // The remaining macros of the script are for the inner ddprun.
    std::vector<std::string> outer = {in_bin("ddprun")};
    for (const auto& word : inner) {
      std::string escaped;
      for (const char c : word) escaped += c == '$' ? std::string("$$") : std::string(1, c);
      outer.push_back(escaped);
    }
    const auto result = run_program(outer);
    CHECK(result.exit_code == 1);
    // The inner report has prefixes.
    CHECK(contains(result.output, "\n  message   : KeyError: boom\n"));
  }

  TEST_CASE("error files: a run that finally succeeds leaves no error file") {
    const TemporaryFolder folder;
    const auto script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; " + record_and_fail("boom");
    const auto result = run_program(launch({"--max_restarts=1"}, script),
                                    {{"TORCHELASTIC_ERROR_FILE", folder / "error.json"}});
    CHECK(result.exit_code == 0);
    CHECK_FALSE(std::filesystem::exists(folder / "error.json"));
  }

  TEST_CASE("error files: an unwritable error file of the agent is only a warning") {
    const auto result = run_program(launch({"--exit_code=worker"}, "exit 5"),
                                    {{"TORCHELASTIC_ERROR_FILE", "/no/such/folder/error.json"}});
    CHECK(result.exit_code == 5);
    CHECK(contains(result.output, "TORCHELASTIC_ERROR_FILE=/no/such/folder/error.json: cannot"));
    CHECK(contains(result.output, "Root cause"));
  }

  TEST_CASE("error files: any content or size of an error file is handled") {
    for (const std::string content :
         {"head -c 3000000 /dev/zero", "head -c 3000000 /dev/zero | tr '\\0' '['",
          "printf '{\"message\": {\"mess'", "printf 'in plain words'", "true"}) {
      CAPTURE(content);
      const auto result = run_program(launch({}, content + " >$TORCHELASTIC_ERROR_FILE; exit 1"));
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "Root cause"));
      CHECK(result.output.size() < 20'000);
    }
  }
}

}  // namespace error_file_test
