// Reports of ddprun about the collectives of a failed run, on each backend.
#include "tests/support/cluster.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace flights_test {

using namespace ddprun::test;

namespace {

/// Without the line breaks of the report.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string joined;
  for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

ProgramResult run_apart(const std::string& backend, const std::string& how, int ranks = 3) {
  auto result = run_program({in_bin("ddprun"), "--nproc_per_node=" + std::to_string(ranks),
                             in_bin("flight_worker"), backend, how});
  result.output = in_one_line(result.output);
  return result;
}

const std::vector<std::string>& backends() {
  static const std::vector<std::string> all = [] {
    std::istringstream names(DDPRUN_BACKENDS);
    std::vector<std::string> found;
    for (std::string name; names >> name;) found.push_back(name);
    return found;
  }();
  return all;
}

const std::string kAllReduce = "all_reduce(6553600 x float32, sum) of 25.0 MiB";

}  // namespace

TEST_SUITE("flights") {
  TEST_CASE("flight records: a hung rank is reported with the collective it did not enter") {
    for (const auto& backend : backends()) {
      const auto result = run_apart(backend, "stop");
      CAPTURE(result.output);
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output,
                     "Where the ranks were in their collectives: rank 2 has not entered collective "
                     "1 of group \"default\", " +
                         kAllReduce + "; ranks 0, 1 wait in it, for up to "));
      CHECK(contains(result.output, "rank 2: its last was barrier(), "));
      CHECK(contains(result.output, ": rank(s) 2 had not entered it"));
    }
  }

  TEST_CASE("flight records: the stack of a late rank is captured at the timeout") {
    const auto result = run_apart("host", "late");
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "stacks of rank 2 "));
    CHECK(contains(result.output, "before they are asked to stop"));
    CHECK(contains(result.output, "compute_for_long("));
    CHECK_FALSE(contains(result.output, "stacks of rank 0 "));
  }

  TEST_CASE("flight records: a killed rank's record and the waiting ranks are reported") {
    for (const auto& backend : backends()) {
      const auto result = run_apart(backend, "kill");
      CAPTURE(result.output);
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "rank 2: its last was barrier(), "));
      CHECK(contains(result.output, "ended : killed by signal 9, SIGKILL"));
    }
  }

  TEST_CASE("flight records: an exception during a pending call ends all ranks") {
    for (const auto& backend : backends()) {
      for (const std::string how : {"throw", "throw-entered", "throw-apart"}) {
        const auto result = run_apart(backend, how);
        CAPTURE(result.output);
        CHECK(result.exit_code == 1);
        CHECK(contains(result.output, "message : std::runtime_error: loss is nan "));
        CHECK(contains(result.output, "Root cause (first failure observed): rank : 1 "));
      }
    }
  }

  TEST_CASE("flight records: a rank that exits before its peers finish is the root cause") {
    const std::string end = "ended : exit code 0 before it ";
    for (const auto& backend : backends()) {
      const auto early = run_apart(backend, "end-early");
      CAPTURE(early.output);
      CHECK(early.exit_code == 1);
      CHECK(contains(early.output, "Root cause (first failure observed): rank : 2 "));
      CHECK(contains(early.output, end + "made group \"default\", where rank"));
      const auto later = run_apart(backend, "end");
      CAPTURE(later.output);
      CHECK(later.exit_code == 1);
      CHECK(contains(later.output, "Root cause (first failure observed): rank : 2 "));
      CHECK(
          contains(later.output, end + "entered collective 1 of group \"default\", " + kAllReduce));
    }
  }

  TEST_CASE("flight records: a rank of another node that exits before its peers finish is named") {
    Cluster cluster("3", "exec " + in_bin("flight_worker") + " host end");
    std::vector<Program*> nodes;
    for (const int number : {2, 3, 4}) nodes.push_back(&cluster.start(number));
    for (auto* node : nodes) {
      CHECK(node->wait() == 1);
      const auto output = in_one_line(node->output());
      CAPTURE(output);
      CHECK(contains(output, "Root cause (first failure observed): rank : 2 "));
      CHECK(contains(output,
                     "has ended with exit code 0 on node 127.0.0.4 before the others, "
                     "which lost a connection to a peer"));
    }
  }

  TEST_CASE("flight records: a rank that exits before others start to wait is named") {
    const TemporaryFolder folder;
    const std::string events = folder / "events";
    const auto result = run_program({in_bin("ddprun"), "--nproc_per_node=3", "--events=" + events,
                                     in_bin("flight_worker"), "host", "end-first", events});
    CAPTURE(result.output);
    CHECK(contains(in_one_line(result.output),
                   "has ended with exit code 0 before it made group \"default\", where rank"));
  }

  TEST_CASE("flight records: the records of each worker are written to the log folder") {
    const TemporaryFolder folder;
    const auto result = run_program({in_bin("ddprun"), "--nproc_per_node=2", "--rdzv_id=kept",
                                     "--log_dir=" + folder.path().string(), in_bin("flight_worker"),
                                     "host", "kill"});
    CAPTURE(result.output);
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (entry.path().filename() != "flights.json") continue;
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const bool is_of_the_killed = entry.path().parent_path().filename() == "1";
      CHECK(contains(text,
                     "{\"collective\":0,\"call\":\"barrier()\",\"bytes\":0,\"state\":\"done\""));
      CHECK(contains(text, "\"collective\":1,") != is_of_the_killed);
      ++files;
    }
    CHECK(files == 2);
  }

  TEST_CASE("flight records: every node's report covers the ranks of all nodes") {
    Cluster cluster("2", "exec " + in_bin("flight_worker") + " host stop", {"--nproc_per_node=2"});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    for (auto* node : {&host, &other}) {
      CHECK(node->wait() == 1);
      const auto output = in_one_line(node->output());
      CAPTURE(output);
      CHECK(contains(output,
                     "Where the ranks were in their collectives: rank 3 has not entered collective "
                     "1 of group \"default\", " +
                         kAllReduce + "; ranks 0-2 wait in it, for up to "));
    }
  }

  TEST_CASE("flight records: different calls of ranks are reported together") {
    for (const auto& backend : backends()) {
      const auto result = run_apart(backend, "mismatch");
      CAPTURE(result.output);
      CHECK(result.exit_code == 1);
      CHECK(contains(result.output, "in collective 1 of group \"default\" "));
      CHECK(contains(result.output, " " + kAllReduce));
      CHECK(contains(result.output, "rank 1 calls broadcast(10 x float32, root 0) of 40 bytes"));
    }
  }

  TEST_CASE("flight records: a missing message is reported with its sender and tag") {
    const auto result = run_apart("host", "message");
    CAPTURE(result.output);
    CHECK(contains(result.output, "rank 0: is in recv(1 x float32, rank 2, tag 7) of 4 bytes"));
  }

  TEST_CASE("flight records: ranks that wait for others to create a group are reported") {
    const auto result = run_apart("host", "meet");
    CAPTURE(result.output);
    CHECK(
        contains(result.output,
                 "rank 2 has not made group \"default\"; ranks 0, 1 wait for the others to join"));
  }
}

}  // namespace flights_test
