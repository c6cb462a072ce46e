// The collectives in the trainer's traces.
#include "tests/support/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace trainer_trace_test {

using ddprun::test::in_bin;
using ddprun::test::read_file;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using Names = std::vector<std::string>;

namespace {

/// Name and bytes of each collective in a trace, except for the sums of losses, which the trainer
/// adds.
Names collectives_in(const std::string& path) {
  Names names;
  for (const auto& event : nlohmann::json::parse(read_file(path))) {
    if (event.at("ph") != "X" || event.at("cat") != "collective") continue;
    const int bytes = event.at("args").at("bytes");
    const auto name = event.at("name").get<std::string>() + " " + std::to_string(bytes);
    if (name != "all_reduce 16") names.push_back(name);
  }
  return names;
}

/// The same for a file of tests/interop/ddp_sequences with lines "when: name count*size, ...".
Names collectives_of(const std::string& file) {
  std::istringstream lines(
      read_file(std::string(DDPRUN_SOURCE_DIR "/tests/interop/ddp_sequences/") + file));
  Names names;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream calls(line.substr(line.find(':') + 1));
    std::string name;
    for (std::string size; calls >> name && name != "none" && calls >> size;) {
      const int bytes = std::stoi(size) * std::stoi(size.substr(size.find('*') + 1));
      names.push_back(name + " " + std::to_string(bytes));
    }
  }
  return names;
}

}  // namespace

TEST_SUITE("trainer traces") {
  TEST_CASE("trainer trace: each bucket is shown with the time that the step waited for it") {
    const TemporaryFolder folder;
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", in_bin("trainer"), "--model=toy",
                     "--max_steps=3", "--trace_collectives=" + (folder / "trace.json")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.output);
    for (const char* name : {"trace.json", "trace.rank1.json"}) {
      int buckets = 0;
      double collectives_begin = 0;
      for (const auto& event : nlohmann::json::parse(read_file(folder / name))) {
        if (event.at("ph") != "X") continue;
        if (collectives_begin == 0) collectives_begin = event.at("ts");
        if (event.at("cat") != "bucket") continue;
        CHECK(event.at("name") == "bucket 0");
        CHECK(event.at("args").at("bytes") > 0);
        CHECK(event.at("args").at("ready_us") >= 0);
        CHECK(event.at("args").at("exposed_us") >= 0);
        CHECK(event.at("ts") > collectives_begin);  // of the same clock
        ++buckets;
      }
      CHECK(buckets == 3);
    }
  }

  TEST_CASE("trainer trace: the toy model's collectives match the golden files in both modes") {
    struct Case {
      const char* collectives;
      const char* file;
    };
    for (const Case& test : {Case{"pytorch", "plain.txt"}, Case{"own", "own/plain.txt"}}) {
      CAPTURE(test.file);
      const TemporaryFolder folder;
      const auto result =
          run_program({in_bin("ddprun"), "--nproc_per_node=2", in_bin("trainer"), "--model=toy",
                       "--max_steps=3", std::string("--collectives=") + test.collectives,
                       "--trace_collectives=" + (folder / "trace.json")});
      REQUIRE_MESSAGE(result.exit_code == 0, result.output);
      const Names expected = collectives_of(test.file);
      REQUIRE(expected.size() >= 5);
      for (const char* name : {"trace.json", "trace.rank1.json"}) {
        const Names names = collectives_in(folder / name);
        CAPTURE(nlohmann::json(names).dump());
        CHECK(std::search(names.begin(), names.end(), expected.begin(), expected.end()) !=
              names.end());
      }
    }
  }
}

}  // namespace trainer_trace_test
