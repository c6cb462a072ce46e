#include "launcher/agent/blame.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace blame_test {

using namespace ddprun;

namespace {

const std::string kClosed =
    "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:54484";

}  // namespace

TEST_SUITE("blame") {
  TEST_CASE("errors of collectives that a peer's end causes are told from a worker's own") {
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
    for (const auto* message : victims) CHECK_MESSAGE(blames_a_peer(message), message);
    for (const auto* message : {"", "KeyError: 'boom'", "RuntimeError: CUDA out of memory",
                                "ConnectionError: HTTPSConnectionPool: closed by peer"}) {
      CHECK_FALSE_MESSAGE(blames_a_peer(message), message);
    }
  }

  TEST_CASE("only a timeout of the runtime names ranks that are late") {
    CHECK(
        names_late_ranks("timeout: barrier(), collective 3 of the group: rank(s) 1 had not "
                         "entered it within 2 s"));
    CHECK_FALSE(names_late_ranks("ddprun::PeerFailed: all_reduce #7: rank 0 failed"));
    CHECK_FALSE(names_late_ranks(""));
  }

  TEST_CASE("a worker that recorded nothing is judged by its last words, not by earlier ones") {
    const std::string traceback = "Traceback (most recent call last):";
    CHECK(is_victim_of_a_peer({.exit_code = 1, .last_lines = {traceback, "  File a", kClosed}}));
    CHECK(is_victim_of_a_peer({.exit_code = 1, .last_lines = {kClosed}}));
    CHECK_FALSE(is_victim_of_a_peer({.exit_code = 1}));
    CHECK_FALSE(is_victim_of_a_peer(
        {.exit_code = 1, .last_lines = {traceback, kClosed, traceback, "KeyError: 'boom'"}}));
    CHECK_FALSE(is_victim_of_a_peer(
        {.exit_code = 1, .error_message = "KeyError: 'boom'", .last_lines = {kClosed}}));
  }

  TEST_CASE("a signal blames nobody, unless the worker recorded it or aborted itself") {
    CHECK(is_victim_of_a_peer({.signal = SIGTERM, .error_message = kClosed}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGTERM, .error_message = "KeyError: 'boom'"}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGSEGV, .last_lines = {kClosed}}));
    CHECK_FALSE(is_victim_of_a_peer({.signal = SIGKILL, .last_lines = {kClosed}}));
    CHECK(is_victim_of_a_peer({.signal = SIGABRT, .last_lines = {kClosed}}));
  }
}

}  // namespace blame_test
