// Data about workers that nodes exchange, and its use.
#include "launcher/agent/placement.hpp"

#include "launcher/report/event_text.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace placement_test {

using namespace ddprun;

namespace {

/// Three nodes of different sizes and two roles.
membership::RoundFormed round_for(int node_rank) {
  return {.round = 4,
          .restarts_used = 1,
          .nodes = {{"a", "x", 2}, {"b", "y", 1}, {"c", "x", 3}},
          .node_rank = node_rank};
}

WorkerExited exit_of_rank(int rank) {
  WorkerExited exit;
  exit.attempt = 2;
  exit.rank = rank;
  exit.local_rank = 1;
  exit.pid = 4711;
  exit.exit_code = 3;
  exit.ran_seconds = 1.5;
  return exit;
}

WorkerExited full_exit() {
  auto exit = exit_of_rank(5);
  exit.node = "b";
  exit.exit_code = 0;
  exit.signal = SIGSEGV;
  exit.still_running = "65 s after SIGKILL: state D";
  exit.was_forwarded = true;
  exit.is_out_of_memory = true;
  exit.peak_memory_bytes = std::int64_t{5} << 30;
  exit.ended_at = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21);
  exit.core_file = "/tmp/core";
  exit.error_message = "oh";
  exit.error_traceback = "dear";
  exit.last_lines = {"first", "last"};
  exit.hint = "a remedy";
  exit.log_folder = "/logs/5";
  return exit;
}

LaunchPlan plan_of(const std::string& node) {
  LaunchPlan plan;
  plan.nodes.emplace();
  plan.nodes->name = node;
  return plan;
}

}  // namespace

TEST_SUITE("placement") {
  TEST_CASE("placement: ranks and role ranks continue those of the preceding nodes") {
    struct Row {
      int node_rank, first_rank, first_role_rank, role_world_size;
    };
    for (const auto& row : {Row{0, 0, 0, 5}, Row{1, 2, 0, 1}, Row{2, 3, 2, 5}}) {
      const auto placement = make_placement(round_for(row.node_rank), "10.0.0.1");
      CHECK(placement.node_rank == row.node_rank);
      CHECK(placement.node_count == 3);
      CHECK(placement.first_rank == row.first_rank);
      CHECK(placement.world_size == 6);
      CHECK(placement.first_role_rank == row.first_role_rank);
      CHECK(placement.role_world_size == row.role_world_size);
      CHECK(placement.master_addr == "10.0.0.1");
    }
  }

  TEST_CASE("placement: the other nodes are known by addresses that only they have") {
    const auto peers = [](int node_rank, std::vector<std::string> addresses) {
      auto round = round_for(node_rank);
      for (std::size_t i = 0; i < round.nodes.size(); ++i) round.nodes[i].address = addresses[i];
      round.nodes[0].is_host = true;
      return make_placement(round, "10.0.0.1").peers;
    };
    using Peers = std::map<std::string, std::string>;
    // The host of the rendezvous is known by the address at which this node has reached it.
    CHECK(peers(1, {"", "10.0.0.2", "10.0.0.3"}) == Peers{{"10.0.0.1", "a"}, {"10.0.0.3", "c"}});
    CHECK(peers(0, {"", "10.0.0.2", "10.0.0.3"}) == Peers{{"10.0.0.2", "b"}, {"10.0.0.3", "c"}});
    CHECK(peers(1, {"", "10.0.0.2", ""}) == Peers{{"10.0.0.1", "a"}});
    CHECK(peers(1, {"10.0.0.9", "10.0.0.2", ""}) == Peers{{"10.0.0.9", "a"}});
    CHECK(peers(1, {"", "", "10.0.0.3"}) == Peers{{"10.0.0.3", "c"}});
    CHECK(peers(1, {"", "10.0.0.2", "10.0.0.1"}) == Peers{});
    CHECK(peers(0, {"10.0.0.1", "10.0.0.2", "10.0.0.2"}) == Peers{});
    CHECK(peers(1, {"10.0.0.1", "10.0.0.2", "10.0.0.2"}) == Peers{{"10.0.0.1", "a"}});
  }

  TEST_CASE("placement: a limited number of failures without stopped workers is sent") {
    AttemptEnd end;
    for (int rank = 0; rank < 40; ++rank) end.exits.push_back(exit_of_rank(rank));
    end.exits[0].was_stopped = true;
    end.exits[1].exit_code = 0;
    const auto ended = make_end(end, plan_of("b"));
    CHECK_FALSE(ended.have_succeeded);
    CHECK(ended.failures.size() == 16);
    for (const auto& failure : ended.failures) {
      CHECK(failure.rank >= 2);
      CHECK(failure.node == "b");
      CHECK(failure.description.ends_with("on node b"));
    }
  }

  TEST_CASE("placement: an attempt succeeds only if all workers start and exit with 0") {
    AttemptEnd well;
    well.exits = {exit_of_rank(0)};
    well.exits[0].exit_code = 0;
    CHECK(make_end(well, plan_of("b")).have_succeeded);
    AttemptEnd not_started;
    not_started.not_started = WorkerNotStarted{.message = "no such file"};
    const auto ended = make_end(not_started, plan_of("b"));
    CHECK_FALSE(ended.have_succeeded);
    CHECK(ended.not_started == "b: no such file");
  }

  TEST_CASE("placement: leftover processes are reported with the end of the workers") {
    AttemptEnd end;
    CHECK_FALSE(make_end(end, plan_of("b")).still_running);
    end.still_running = "process 7 is still running";
    CHECK(make_end(end, plan_of("b")).still_running == end.still_running);
  }

  TEST_CASE("placement: a start that failed despite retries counts like a worker's failure") {
    AttemptEnd end;
    end.exits = {exit_of_rank(1)};
    end.exits[0].was_started = false;
    const auto ended = make_end(end, plan_of("b"));
    CHECK(ended.not_started.empty());
    REQUIRE(ended.failures.size() == 1);
    CHECK(ended.failures[0].description == "rank 1 could not be started on node b");
    CHECK_FALSE(ended.failures[0].exit->was_started);
  }

  TEST_CASE("placement: an outcome yields the same report on all nodes") {
    membership::RunOutcome outcome{.result = RunResult::failed,
                                   .scope = OutcomeScope::node,
                                   .rounds = 3,
                                   .reason = "rank 5 failed",
                                   .failures = {{.rank = 5, .exit = full_exit()},
                                                {.rank = 6, .description = "gone", .node = "c"}}};
    LaunchPlan plan;
    plan.options.exit_code = ExitCodePolicy::worker;
    const auto finished = make_run_finished(outcome, plan, nullptr, "");
    CHECK(finished.result == RunResult::failed);
    CHECK(finished.scope == OutcomeScope::node);
    CHECK(finished.attempts == 3);
    CHECK(finished.exit_code == 128 + SIGSEGV);
    REQUIRE(finished.failures.size() == 2);
    CHECK(finished.failures[0] == full_exit());
    CHECK(finished.failures[1].rank == 6);
    CHECK(finished.failures[1].node == "c");
    CHECK(finished.failures[1].error_message == "gone");
  }

  TEST_CASE("placement: descriptions on a single node do not name the node") {
    AttemptEnd end;
    end.not_started = WorkerNotStarted{.message = "no such file"};
    CHECK(make_end(end, {}).not_started == "no such file");
    end = {};
    end.exits = {exit_of_rank(1)};
    CHECK(make_end(end, {}).failures[0].description == "rank 1 (pid 4711) failed with exit code 3");
  }

  TEST_CASE("placement: stopped workers count as failures only on a single node") {
    AttemptEnd end;
    end.exits = {exit_of_rank(1)};
    end.exits[0].was_stopped = true;
    CHECK(make_end(end, {}).failures.size() == 1);
    CHECK(make_end(end, plan_of("b")).failures.empty());
  }

  TEST_CASE("placement: leftover processes prevent a restart") {
    AttemptEnd end;
    end.exits = {exit_of_rank(1)};
    CHECK_FALSE(make_end(end, {}).no_restart);
    end.still_running = "process 7 (tar) is still running";
    CHECK(make_end(end, {}).no_restart == "no restart, because process 7 (tar) is still running");
    end.exits[0].still_running = "65 s after SIGKILL: state D";
    CHECK(make_end(end, {}).no_restart == "no restart beside it");
  }

  TEST_CASE("placement: the report of a single node contains all exits") {
    AttemptEnd end;
    for (int rank = 0; rank < 40; ++rank) end.exits.push_back(exit_of_rank(rank));
    const membership::RunOutcome failed{.result = RunResult::failed, .reason = "rank 0 failed"};
    const auto finished = make_run_finished(failed, {}, &end, "; try --agent_store=off");
    CHECK_FALSE(finished.is_of_many);
    CHECK(finished.failures.size() == 40);
    CHECK(finished.reason == "rank 0 failed; try --agent_store=off");
    const membership::RunOutcome interrupted{
        .result = RunResult::interrupted, .reason = "a was asked to stop", .signal = SIGINT};
    CHECK(make_run_finished(interrupted, {}, &end, "").reason == "interrupted by SIGINT");
  }

  TEST_CASE("placement: the first difference of a rejected configuration is named") {
    membership::Refused refused{"another file", R"({"job":{"rdzv_id":2}})"};
    explain(refused, R"({"job":{"rdzv_id":1}})");
    CHECK(refused.reason == "another file; it differs first in job.rdzv_id");
    membership::Refused other{"another run", ""};
    explain(other, "{}");
    CHECK(other.reason == "another run");
  }
}

TEST_SUITE("exits in failures") {
  TEST_CASE("placement: last lines and traceback and hint are sent for the first failure only") {
    AttemptEnd end;
    end.exits = {full_exit(), full_exit()};
    const auto failures = make_end(end, plan_of("b")).failures;
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].exit == full_exit());
    auto expected = full_exit();
    expected.last_lines.clear();
    expected.error_traceback.clear();
    expected.hint.clear();
    CHECK(failures[1].exit == expected);
  }

  TEST_CASE("placement: ranks that hung together are named together") {
    AttemptEnd end;
    end.exits = {exit_of_rank(0), exit_of_rank(1), exit_of_rank(2)};
    end.exits[0].hung = end.exits[1].hung = "waits in a collective";
    const auto failures = make_end(end, plan_of("b")).failures;
    REQUIRE(failures.size() == 3);
    CHECK(failures[0].description == "ranks 0, 1 hung on node b");
    CHECK(failures[1].description == "ranks 0, 1 hung on node b");
    CHECK(failures[2].description == describe_failure(end.exits[2]) + " on node b");
  }

  TEST_CASE("placement: long texts of an exit are cut") {
    AttemptEnd end;
    end.exits = {exit_of_rank(0)};
    end.exits[0].error_message = std::string(100'000, 'x');
    end.exits[0].last_lines = {std::string(100'000, 'y')};
    const auto exit = make_end(end, plan_of("b")).failures.at(0).exit;
    REQUIRE(exit);
    CHECK(exit->error_message == std::string(4093, 'x') + "...");
    CHECK(exit->last_lines[0] == std::string(4093, 'y') + "...");
  }
}

}  // namespace placement_test
