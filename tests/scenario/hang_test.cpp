// Hangs of workers, slow ranks and slow links: which rank is named, and the reaction of ddprun.
#include "tests/support/cluster.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/network.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace hang_test {

using namespace ddprun::test;

namespace {

ProgramResult run_hanging(const std::string& how, std::vector<std::string> options) {
  std::vector<std::string> arguments = {in_bin("ddprun"), "--nproc_per_node=3"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  for (const auto& argument : {in_bin("flight_worker"), std::string("host"), how})
    arguments.push_back(argument);
  auto result = run_program(arguments);
  // Lines of the report are wrapped.
  std::replace(result.output.begin(), result.output.end(), '\n', ' ');
  return result;
}

const std::string kNotEntered = "rank 2 has not entered collective 40 of group \"default\"";

}  // namespace

TEST_SUITE("hangs") {
  TEST_CASE("hangs: a stopped rank is named with its collective and all ranks are restarted") {
    const auto result = run_hanging("hang-stop", {"--max_restarts=1"});
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "rank 2 hangs (no progress for "));
    CHECK(contains(result.output, "s): stopped by a signal (state T); restarting the workers"));
    CHECK(contains(result.output, kNotEntered));
    CHECK(contains(result.output, ") hung: stopped by a signal (state T); restart 1 of 1"));
  }

  TEST_CASE("hangs: with a fixed timeout a sleeping rank and an endless loop are restarted") {
    struct Row {
      const char* how;
      const char* doing;
      const char* function;
    };
    for (const auto& row : {Row{"hang-sleep", "does not run, waits in ", "compute_for_long"},
                            Row{"hang-loop", "runs, but calls no collective", "loop_forever"}}) {
      const auto result = run_hanging(row.how, {"--max_restarts=1", "--hang_timeout=2"});
      CAPTURE(result.output);
      CHECK(result.exit_code == 0);
      CHECK(contains(result.output, "rank 2 hangs (no progress for "));
      CHECK(contains(result.output, row.doing));
      CHECK(contains(result.output, row.function));
      CHECK(contains(result.output, kNotEntered));
      CHECK(contains(result.output, "restart 1 of 1"));
    }
  }

  TEST_CASE("hangs: --on_hang=stop ends the run although restarts are left") {
    const auto result =
        run_hanging("hang-sleep", {"--max_restarts=3", "--hang_timeout=2", "--on_hang=stop"});
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "; ending the run"));
    CHECK(contains(result.output, "after 1 attempt"));
    CHECK(contains(result.output, "no restart, because --on_hang is stop"));
  }

  TEST_CASE("hangs: --on_hang=report leaves the workers running") {
    const TemporaryFolder folder;
    const std::string events = folder / "events";
    Program run({in_bin("ddprun"), "--nproc_per_node=3", "--max_restarts=1", "--hang_timeout=2",
                 "--on_hang=report", "--events=" + events, in_bin("flight_worker"), "host",
                 "hang-sleep"});
    CHECK(run.read_until_contains("stacks of rank 2 "));
    run.signal(SIGTERM);
    CHECK(run.wait() == 143);
    CAPTURE(run.output());
    CHECK(contains(run.output(), "rank 2 hangs (no progress for "));
    CHECK_FALSE(contains(run.output(), "restarting"));
    // Main threads only.
    CHECK(contains(run.output(), "[rank 2]: \n"));
    CHECK((contains(run.output(), "[rank 0]:   #0  ") ||
           contains(run.output(), "[ranks 0, 1]:   #0  ")));
    CHECK_FALSE(contains(run.output(), "[rank 0]: \n"));
    CHECK_FALSE(contains(run.output(), "[ranks 0, 1]: \n"));
    const std::string text = read_file(events);
    CHECK(contains(text, "\"event\":\"hang_detected\",\"attempt\":0,"));
    CHECK(contains(text, "\"action\":\"report\""));
  }

  TEST_CASE("hangs: a node whose only worker is stopped restarts the workers of all nodes") {
    Cluster cluster("2",
                    "if [ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then kill -STOP $$; "
                    "fi; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 300",
                    {"--max_restarts=1", "--hang_timeout=2"});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CAPTURE(host.output());
    CAPTURE(other.output());
    CHECK(contains(host.output() + other.output(), "rank 1 hangs"));
    CHECK(contains(host.output() + other.output(), "rank 1 on node "));
    CHECK(contains(host.output(), " hung: stopped by a signal (state T) on node "));
  }

  TEST_CASE(
      "hangs: the first node reports hung ranks of another node and the stacks of all nodes") {
    const TemporaryFolder folder;
    Cluster cluster("2", "exec " + in_bin("flight_worker") + " host hang-sleep",
                    {"--hang_timeout=2", "--on_hang=report", "--stacks=kill"});
    auto& host = cluster.start(2, {"--events=" + (folder / "events")});
    auto& other = cluster.start(3);
    CHECK(host.read_until_contains("[rank 0]: Thread "));
    CHECK(host.read_until_contains("compute_for_long"));
    host.signal(SIGTERM);
    CHECK(host.wait() == 143);
    CHECK(other.wait() == 143);
    CAPTURE(host.output());
    CHECK(contains(host.output(), "rank 1 on node "));
    CHECK(contains(host.output(), " hangs (no progress for "));
    const std::string text = read_file(folder / "events");
    CHECK(contains(text, "\"event\":\"hang_detected\",\"attempt\":0,\"node\":\"127.0.0.3"));
    CHECK(contains(text, "\"event\":\"stacks_taken\",\"attempt\":0,\"rank\":1,"));
  }

  TEST_CASE(
      "hangs: a connection between two nodes that loses all packets is reported by the first "
      "node") {
    const Network network(3);
    if (!network.is_there()) return skip("network namespaces are not permitted here");
    const TemporaryFolder folder;
    const std::string secret = make_secret(folder / "secret");
    std::vector<std::unique_ptr<Program>> nodes;
    for (int number = 1; number <= 3; ++number) {
      nodes.push_back(std::make_unique<Program>(network.on(
          number, {in_bin("ddprun"), "--nnodes=3", "--rdzv_backend=c10d",
                   "--rdzv_endpoint=" + network.address(1) + ":29400", "--rdzv_id=lost",
                   "--local_addr=" + network.address(number), "--secret_file=" + secret,
                   "--hang_timeout=4", "--on_hang=report", "--events=" + (folder / "events"),
                   in_bin("flight_worker"), "host", "slow", "1.0", folder / "none"})));
    }
    Program& host = *nodes[0];
    REQUIRE(host.read_until_contains("rank 0 of 3"));
    REQUIRE(wait_until([&] { return contains(read_file(folder / "events"), "worker_started"); }));
    if (!network.part(2, {3})) return skip("there is no nft (package nftables)");
    CHECK(host.read_until_contains(" has had no acknowledgement from "));
    host.signal(SIGTERM);
    CHECK(host.wait() == 143);
    CAPTURE(host.output());
    // Whether a node reaches the limit before it knows that the others wait as well depends on the
    // times of their messages.
    CHECK((contains(host.output(), "the workers on node ") ||
           contains(host.output(), "waits in a collective, like all ranks; rank ")));
    // Only one of the two nodes may have sent data.
    const auto lost = [&network](int rank, int number) {
      return "rank " + std::to_string(rank) + " has had no acknowledgement from " +
             network.address(number) + ":";
    };
    CHECK((contains(host.output(), lost(1, 3)) || contains(host.output(), lost(2, 2))));
    CHECK_FALSE(contains(host.output(), "rank 0 has had no"));
  }

  TEST_CASE(
      "slow ranks: a rank that sleeps longer between collectives is named until it recovers") {
    const TemporaryFolder folder;
    const std::string file = folder / "fast", events = folder / "events";
    Program run({in_bin("ddprun"), "--nproc_per_node=3", "--events=" + events,
                 in_bin("flight_worker"), "host", "slow", "1.8", file});
    CHECK(run.read_until_contains("rank 2 is slow: takes "));
    write_file(file, "");
    CHECK(run.read_until_contains("rank 2 is as fast as the others again"));
    run.signal(SIGTERM);
    CHECK(run.wait() == 143);
    CAPTURE(run.output());
    CHECK_FALSE(contains(run.output(), "rank 0 is slow"));
    CHECK_FALSE(contains(run.output(), "rank 1 is slow"));
    const std::string text = read_file(events);
    CHECK(contains(text, "\"event\":\"slow_rank_detected\",\"attempt\":0,\"rank\":2,"));
    CHECK(contains(text, "\"event\":\"slow_rank_recovered\",\"attempt\":0,\"rank\":2,"));
  }

  TEST_CASE("slow ranks: the only rank of a node is compared with the ranks of other nodes") {
    const TemporaryFolder folder;
    Cluster cluster("2", "exec " + in_bin("flight_worker") + " host slow 1.8 " + (folder / "fast"));
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    CHECK(other.read_until_contains("rank 1 is slow: takes "));
    CHECK(host.read_until_contains(" is slow: takes "));
    host.signal(SIGINT);
    CHECK(host.wait() == 130);
    CHECK(other.wait() == 130);
    CHECK(contains(host.output(), "rank 1 on node "));
    CHECK_FALSE(contains(host.output(), "rank 0 is slow"));
  }

  TEST_CASE("slow links: a link that is shaped is named by the first node until it is free again") {
    const Network network(2);
    if (!network.is_there()) return skip("network namespaces are not permitted here");
    const TemporaryFolder folder;
    const std::string events = folder / "events";
    std::vector<std::unique_ptr<Program>> nodes;
    for (int number = 1; number <= 2; ++number) {
      nodes.push_back(std::make_unique<Program>(network.on(
          number, {in_bin("ddprun"), "--nnodes=2", "--rdzv_backend=c10d",
                   "--rdzv_endpoint=" + network.address(1) + ":29400", "--rdzv_id=shaped",
                   "--rdzv_conf=is_host=" + std::to_string(number == 1 ? 1 : 0),
                   "--local_addr=" + network.address(number), "--security=open",
                   "--events=" + events + std::to_string(number), in_bin("trainer"),
                   "--dataset=random", "--epochs=1000000"})));
    }
    Program& host = *nodes[0];
    REQUIRE(host.read_until_contains("epoch 2/"));
    // The usual speed must be known.
    const auto since = std::chrono::steady_clock::now();
    wait_until([&] { return std::chrono::steady_clock::now() - since > std::chrono::seconds(20); });
    if (!network.shape(2, "20mbit")) return skip("tc or the tbf discipline is missing here");
    CHECK(host.read_until_contains("the link from node " + network.address(2) + " to node " +
                                   network.address(1) + " is slow: data takes "));
    CHECK(host.read_until_contains("; rank 1 sends "));
    network.unshape(2);
    CHECK(host.read_until_contains(" is as fast as usual again"));
    host.signal(SIGTERM);
    CHECK(host.wait() == 143);
    CAPTURE(host.output());
    CHECK_FALSE(contains(host.output(), "the link to node"));
    const std::string text = read_file(events + "1");
    CHECK(contains(text, "\"event\":\"slow_rank_detected\",\"attempt\":0,\"rank\":1,"));
    CHECK(contains(text, "\"peer\":\"" + network.address(1) + "\""));
  }

  TEST_CASE("hangs: a Python rank that computes without heartbeats is restarted") {
    const std::string program =
        "import os, time, ddprun\n"
        "for step in range(5):\n"
        "    ddprun.heartbeat()\n"
        "    time.sleep(0.01)\n"
        "while os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    pass\n";
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", "--max_restarts=1", "--hang_timeout=2",
                     "--no_python", "env", "PYTHONPATH=" DDPRUN_SOURCE_DIR "/python",
                     "PYTHONDONTWRITEBYTECODE=1", "python3", "-c", program});
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "ranks 0, 1 hang (no progress for "));
  }

  TEST_CASE("hangs: a Python rank that ends when its stacks are taken counts as hung") {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/usr/bin/python3", folder.path() / "python3");
    // Without other tools in PATH, Python's own handler prints the stacks and ends the process.
    const auto result =
        run_program({"/usr/bin/env", "PATH=" + folder.path().string(), in_bin("ddprun"),
                     "--nproc_per_node=2", "--hang_timeout=2", "--on_hang=stop", "--no_python",
                     "python3", "-c", "import time; time.sleep(300)"});
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "killed by signal 6, SIGABRT after a hang: does not run"));
    CHECK_FALSE(contains(result.output, " was killed by SIGABRT"));
  }

  TEST_CASE("hangs: ranks that hang together are reported together") {
    const TemporaryFolder folder;
    // Both are stopped by one command, and so between the same two samples.
    const auto result = run_program(
        launch({"--nproc_per_node=3", "--hang_timeout=2", "--on_hang=stop"},
               "cd " + folder.path().string() +
                   "; echo $$ > $RANK.new; mv $RANK.new $RANK; if [ $RANK = 0 ]; then "
                   "while ! [ -e 1 ] || ! [ -e 2 ]; do :; done; kill -STOP $(cat 1) $(cat 2); fi; "
                   "exec sleep 300"));
    CAPTURE(result.output);
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "stopping rank 0: ranks 1, 2 hang"));
    CHECK(contains(result.output, "ranks 1, 2 hung"));
    CHECK(contains(result.output, "Root cause (one of the ranks that hung):\n  rank      : 1 "));
    CHECK(contains(result.output, "Hung, too:\n  rank 2    : "));
  }

  TEST_CASE("hangs: a stopped program behind a shell is detected") {
    const auto result = run_program(
        launch({"--nproc_per_node=2", "--hang_timeout=2", "--max_restarts=1"},
               "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sh -c '[ $RANK = 0 ] || kill -STOP $$; "
               "exec sleep 300'; exit"));
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "rank 1 hangs (no progress for "));
  }

  TEST_CASE("hangs: a rank whose descendants work does not hang") {
    const auto result = run_program(launch(
        {"--nproc_per_node=2", "--hang_timeout=2"},
        "sh -c 'end=$(($(date +%s) + 5)); while [ $(date +%s) -lt $end ]; do :; done' | cat"));
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(contains(result.output, " hang"));
  }

  TEST_CASE("hangs: ranks of any program that all sleep are restarted") {
    const auto result =
        run_program(launch({"--nproc_per_node=2", "--hang_timeout=2", "--max_restarts=1"},
                           "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 300"));
    CAPTURE(result.output);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "ranks 0, 1 hang (no progress for "));
    CHECK(contains(result.output, "s): each does not run, waits in "));
  }
}

}  // namespace hang_test
