// The file of a worker's last calls.
#include "launcher/report/flights_file.hpp"

#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace flights_file_test {

using namespace ddprun;
using namespace std::chrono_literals;
using control::FlightState;
using control::GroupState;

TEST_SUITE("flights file") {
  TEST_CASE("flights file: each group is written with its calls and relative times") {
    const RankFlights rank{
        2,
        {.groups = {{.name = "default",
                     .rank = 2,
                     .size = 3,
                     .state = GroupState::failed,
                     .entered = 2,
                     .flights = {{.number = 0,
                                  .call = "barrier()",
                                  .state = FlightState::done,
                                  .entered_ago = 3s,
                                  .ended_ago = 2s},
                                 {.number = 1,
                                  .is_message = true,
                                  .call = "recv(1 x int32, rank 0, tag 7)",
                                  .bytes = 4,
                                  .entered_ago = 500ms}}},
                    {.name = "default/0", .members = {0, 2}, .state = GroupState::meeting}},
         .unrecorded_groups = 1}};
    const std::chrono::system_clock::time_point when{1000s};
    CHECK(flights_document(rank, 1, when) ==
          R"x({"version":1,"time":"1970-01-01T00:16:40.000000Z","attempt":1,"rank":2,)x"
          R"x("unrecorded_groups":1,"groups":[)x"
          "\n"
          R"x({"name":"default","rank":2,"size":3,"members":null,"state":"failed",)x"
          R"x("collectives_entered":2,"calls":[)x"
          "\n "
          R"x({"collective":0,"call":"barrier()","bytes":0,"state":"done",)x"
          R"x("entered":"1970-01-01T00:16:37.000000Z","ended":"1970-01-01T00:16:38.000000Z"},)x"
          "\n "
          R"x({"collective":null,"call":"recv(1 x int32, rank 0, tag 7)","bytes":4,)x"
          R"x("state":"entered","entered":"1970-01-01T00:16:39.500000Z","ended":null}]},)x"
          "\n"
          R"x({"name":"default/0","rank":0,"size":1,"members":[0,2],"state":"meeting",)x"
          R"x("collectives_entered":0,"calls":[]}]})x"
          "\n");
  }

  TEST_CASE("flights file: names with invalid UTF-8 yield valid JSON") {
    const auto empty = nlohmann::json::parse(flights_document({0, {}}, 0, {}));
    CHECK(empty.at("groups").empty());
    const RankFlights rank{0, {.groups = {{.name = "a\xff\"b"}}}};
    CHECK(nlohmann::json::parse(flights_document(rank, 0, {})).at("groups").size() == 1);
  }

  TEST_CASE("flights file: an existing file is replaced and write errors are reported") {
    const test::TemporaryFolder folder;
    const auto file = folder.path() / "flights.json";
    CHECK_FALSE(write_flights(file, "longer"));
    CHECK_FALSE(write_flights(file, "short"));
    std::ifstream stream(file);
    std::string text;
    stream >> text;
    CHECK(text == "short");
    CHECK(write_flights(folder.path(), "x")->find(": Is a directory") != std::string::npos);
  }
}

}  // namespace flights_file_test
