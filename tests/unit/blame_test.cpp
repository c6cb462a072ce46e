#include "launcher/agent/blame.hpp"

#include "launcher/report/event_text.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

namespace blame_test {

using namespace ddprun;

namespace {

const std::string kClosed =
    "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:54484";

WorkerExited exited(int rank, int code, double ran_seconds = 60) {
  return {.rank = rank,
          .local_rank = rank,
          .pid = 100 + rank,
          .exit_code = code,
          .ran_seconds = ran_seconds};
}

WorkerExited killed(int rank, int signal) {
  WorkerExited exit = exited(rank, 0);
  exit.signal = signal;
  return exit;
}

WorkerExited stopped(int rank) {
  WorkerExited exit = killed(rank, SIGTERM);
  exit.was_stopped = true;
  return exit;
}

WorkerExited peer_failed(int rank) {
  WorkerExited exit = exited(rank, 1);
  exit.error_message = "ddprun::PeerFailed: all_reduce #7: rank 0 failed";
  return exit;
}

WorkerExited gloo_failed(int rank) {
  WorkerExited exit = exited(rank, 1);
  exit.last_lines = {"RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer"};
  return exit;
}

std::vector<int> ranks(const std::vector<WorkerExited>& exits) {
  std::vector<int> result;
  result.reserve(exits.size());
  for (const auto& exit : exits) result.push_back(exit.rank);
  return result;
}

}  // namespace

TEST_SUITE("blame") {
  TEST_CASE("blame: error messages that blame a peer are recognised") {
    const char* victims[] = {
        "ddprun::PeerFailed: all_reduce #7: rank 0 failed",
        kClosed.c_str(),
        "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset "
        "by peer",
        "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms",
        "RuntimeError: Gloo connectFullMesh failed with [enforce fail at ...]",
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1331, internal error\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting",
        "RuntimeError: NCCL communicator was aborted on rank 1.",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, ...",
    };
    for (const auto* message : victims) CHECK_MESSAGE(blames_a_peer({}, message), message);
    for (const auto* message : {"", "KeyError: 'boom'", "RuntimeError: CUDA out of memory",
                                "ConnectionError: HTTPSConnectionPool: closed by peer"}) {
      CHECK_FALSE_MESSAGE(blames_a_peer({}, message), message);
    }
  }

  TEST_CASE("blame: a recorded error code takes precedence over the message") {
    CHECK(blames_a_peer(Errc::remote, "all_reduce #7: rank 0 failed"));
    CHECK_FALSE(blames_a_peer(Errc::timeout, kClosed));
    CHECK_FALSE(blames_a_peer(Errc::usage, "PeerFailed"));
  }

  TEST_CASE("blame: without an error record the last line of output is examined") {
    const std::string traceback = "Traceback (most recent call last):";
    CHECK(is_victim_of_a_peer({.exit_code = 1, .last_lines = {traceback, "  File a", kClosed}}));
    CHECK(is_victim_of_a_peer({.exit_code = 1, .last_lines = {kClosed}}));
    CHECK_FALSE(is_victim_of_a_peer({.exit_code = 1}));
    CHECK_FALSE(is_victim_of_a_peer(
        {.exit_code = 1, .last_lines = {traceback, kClosed, traceback, "KeyError: 'boom'"}}));
    CHECK_FALSE(is_victim_of_a_peer(
        {.exit_code = 1, .error_message = "KeyError: 'boom'", .last_lines = {kClosed}}));
  }

  TEST_CASE("blame: a signalled worker is a victim only if it recorded a peer error or aborted") {
    CHECK(is_victim_of_a_peer({.signal = SIGTERM, .error_message = kClosed}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGTERM, .error_message = "KeyError: 'boom'"}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGSEGV, .last_lines = {kClosed}}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGKILL, .last_lines = {kClosed}}));
    CHECK(is_victim_of_a_peer({.signal = SIGABRT, .last_lines = {kClosed}}));
  }

  TEST_CASE("blame: the root cause is the first failure not caused by another rank") {
    struct Row {
      std::vector<WorkerExited> exits;
      std::vector<int> expected;
    };
    const Row rows[] = {
        {{exited(2, 1), exited(0, 2)}, {2, 0}},
        {{stopped(3), killed(1, SIGSEGV)}, {1}},
        {{peer_failed(0), peer_failed(3), killed(1, SIGKILL)}, {1, 0, 3}},
        {{peer_failed(0), exited(1, 0)}, {0}},
        {{gloo_failed(0), exited(1, 1)}, {1, 0}},
        {{stopped(0), stopped(1)}, {0, 1}},
        {{exited(0, 0)}, {}},
    };
    for (const auto& row : rows) CHECK(ranks(failures_root_cause_first(row.exits)) == row.expected);
  }

  TEST_CASE("blame: a worker that exits with code 0 before all victims of a peer is the cause") {
    struct Row {
      std::vector<WorkerExited> exits;
      std::vector<int> expected;
    };
    const Row rows[] = {
        {{exited(1, 0), gloo_failed(0), peer_failed(2), stopped(3)}, {1, 0, 2}},
        {{exited(1, 0), gloo_failed(0), exited(2, 1)}, {2, 0}},
        {{exited(1, 0), exited(2, 0), gloo_failed(0)}, {0}},
        {{gloo_failed(0), exited(1, 0)}, {0}},
        {{stopped(1), gloo_failed(0)}, {0}},
        {{exited(0, 0)}, {}},
        {{}, {}},
    };
    for (auto row : rows) {
      note_early_exit(row.exits);
      CHECK(ranks(failures_root_cause_first(row.exits)) == row.expected);
    }
  }

  TEST_CASE("failure text: a description names the exit code or the signal") {
    CHECK(describe_failure(exited(2, 3)) == "rank 2 (pid 102) failed with exit code 3");
    CHECK(describe_failure(killed(2, SIGKILL)) == "rank 2 (pid 102) was killed by SIGKILL");
    CHECK(describe_failure(killed(2, SIGRTMIN + 3)) == "rank 2 (pid 102) was killed by SIGRTMIN+3");
    auto out_of_memory = killed(0, SIGKILL);
    out_of_memory.is_out_of_memory = true;
    CHECK(describe_failure(out_of_memory) ==
          "rank 0 (pid 100) was killed by SIGKILL (out of memory)");
    auto forwarded = killed(0, SIGUSR1);
    forwarded.was_forwarded = true;
    CHECK(describe_failure(forwarded) ==
          "rank 0 (pid 100) was killed by SIGUSR1 (forwarded by ddprun)");
  }
}

}  // namespace blame_test
