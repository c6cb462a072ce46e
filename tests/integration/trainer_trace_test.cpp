// What the trainer's traces say of its collectives.
#include "tests/support/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

using ddprun::test::in_bin;
using ddprun::test::read_file;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using Names = std::vector<std::string>;

namespace {

/// Name and bytes of each collective in a trace, without the sums of losses, which are the
/// trainer's own.
Names collectives_in(const std::string& path) {
  Names names;
  for (const auto& event : nlohmann::json::parse(read_file(path))) {
    if (event.at("ph") != "X") continue;
    const int bytes = event.at("args").at("bytes");
    const auto name = event.at("name").get<std::string>() + " " + std::to_string(bytes);
    if (name != "all_reduce 16") names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_SUITE("trainer traces") {
  TEST_CASE("with --collectives=pytorch the toy model's trace has DDP's sequence") {
    const TemporaryFolder folder;
    const auto result = run_program({in_bin("ddprun"), "--nproc_per_node=2", in_bin("trainer"),
                                     "--model=toy", "--max_steps=3", "--collectives=pytorch",
                                     "--trace_collectives=" + (folder / "trace.json")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.output);
    // Construction, first step, rebuild, later steps.
    const Names expected = {"all_gather 8", "broadcast 96", "broadcast 660",  "all_reduce 660",
                            "broadcast 20", "broadcast 4",  "all_reduce 660", "all_reduce 660"};
    for (const char* name : {"trace.json", "trace.rank1.json"}) {
      const Names names = collectives_in(folder / name);
      CAPTURE(nlohmann::json(names).dump());
      CHECK(std::search(names.begin(), names.end(), expected.begin(), expected.end()) !=
            names.end());
    }
  }
}
