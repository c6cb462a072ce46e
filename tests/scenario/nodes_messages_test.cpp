// Messages of the nodes of a run: before the rendezvous, when a node leaves, and at the end.
#include "tests/support/cluster.hpp"
#include "tests/support/json_lines.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace nodes_messages_test {

using namespace ddprun::test;

namespace {

/// A server that answers every request with this text and closes the connection. It prints its port
/// first.
Program answering(const std::string& text) {
  return Program({"/usr/bin/python3", "-c",
                  "import socket, sys\n"
                  "server = socket.create_server(('127.0.0.2', 0))\n"
                  "print('port', server.getsockname()[1], flush=True)\n"
                  "while True:\n"
                  "    peer = server.accept()[0]\n"
                  "    peer.recv(100)\n"
                  "    peer.sendall(sys.argv[1].encode())\n"
                  "    peer.close()\n",
                  text});
}

std::vector<std::string> static_node(int number, const FreePort& port) {
  return {"--nnodes=2",
          "--master_addr=127.0.0.2",
          "--master_port=" + port.text(),
          "--local_addr=127.0.0." + std::to_string(number),
          "--security=open",
          "--rdzv_conf=join_timeout=20"};
}

/// Waits until the host has joined its own rendezvous: nodes started from now on join after it.
bool has_come_first(Program& host) {
  return host.read_until_contains("1 of at least 2 nodes has joined (127.0.0.2)");
}

}  // namespace

TEST_SUITE("node messages") {
  TEST_CASE("nodes: a missing node rank is reported and a duplicate one rejected") {
    const FreePort port;
    Program first(launch(static_node(2, port), "true"));
    REQUIRE(has_come_first(first));
    Program second(launch(static_node(3, port), "true"));
    CHECK(second.wait() == 1);
    CHECK(contains(second.output(),
                   "--node_rank is missing: this node uses 0, the rank of the node that hosts the "
                   "rendezvous at 127.0.0.2:" +
                       port.text() + "; give each other node its own rank"));
    CHECK(contains(second.output(), "this node was refused: --node_rank=0 is taken by 127.0.0.2"));
    CHECK_FALSE(contains(second.output(), "the run ended"));
    auto with_rank = static_node(3, port);
    with_rank.emplace_back("--node_rank=1");
    Program right(launch(with_rank, "true"));
    CHECK(right.wait() == 0);
    CHECK(first.wait() == 0);
  }

  TEST_CASE("nodes: a node reports that it waits for others long before the timeout") {
    Cluster cluster("2", "true", {}, "join_timeout=600");
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("1 of at least 2 nodes has joined (127.0.0.2); waiting for "));
    auto& other = cluster.start(3);
    CHECK(other.wait() == 0);
    CHECK(host.wait() == 0);
  }

  TEST_CASE("nodes: a third interrupt ends a host before the other nodes' workers end") {
    Cluster cluster("2", "trap '' INT TERM; echo \"up as $RANK.\"; while :; do sleep 0.02; done",
                    {"--shutdown_timeout=60"});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    REQUIRE(host.read_until_contains("up as 0."));
    REQUIRE(other.read_until_contains("up as 1."));
    host.signal(SIGINT);
    REQUIRE(host.read_until_contains("at most 60 s"));
    host.signal(SIGINT);
    REQUIRE(host.read_until_contains("send the signal again to end before them"));
    host.signal(SIGINT);
    CHECK(host.wait(std::chrono::seconds(30)) == 128 + SIGINT);
    CHECK(host.leaves_no_process());
    other.signal(SIGINT);
    REQUIRE(other.read_until_contains("received SIGINT"));
    other.signal(SIGINT);
    CHECK(other.wait(std::chrono::seconds(30)) == 128 + SIGINT);
    CHECK(other.leaves_no_process());
  }

  TEST_CASE("nodes: the error of a second node 0 names the process that hosts the rendezvous") {
    const FreePort port;
    auto with_rank = static_node(2, port);
    with_rank.emplace_back("--node_rank=0");
    Program first(launch(with_rank, "true"));
    REQUIRE(first.read_until_contains("this node hosts the rendezvous"));
    Program second(launch(with_rank, "true"));
    CHECK(second.wait() == 1);
    CHECK(contains(second.output(), "port " + port.text() + " is in use by process "));
    CHECK(contains(second.output(),
                   "this node hosts it (--node_rank=0 or is_host=1); start one such node only"));
    first.signal(SIGTERM);
    first.wait();
  }

  TEST_CASE("nodes: the error of a node 0 with a foreign address lists the node's addresses") {
    const FreePort port;
    Program node(
        launch({"--nnodes=2", "--node_rank=0", "--master_addr=192.0.2.1",
                "--master_port=" + port.text(), "--security=open", "--rdzv_conf=join_timeout=0.3"},
               "true"));
    CHECK(node.wait() == 1);
    CHECK(contains(node.output(),
                   "this node hosts it (--node_rank=0 or is_host=1), but the address is not "
                   "one of this machine's ("));
  }

  TEST_CASE("nodes: the host finally lists rejected nodes with the reasons") {
    Cluster cluster("2", "true");
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("this node hosts the rendezvous"));
    auto& other = cluster.start(3, {"--max_restarts=2"});
    CHECK(other.wait() == 1);
    host.signal(SIGTERM);
    CHECK(host.wait() == 128 + SIGTERM);
    const std::string text =
        "refused 127.0.0.3 (127.0.0.1): --max_restarts is 2 on the node that joins and 0 on the "
        "one that "
        "hosts the rendezvous";
    const auto& output = host.output();
    CHECK(contains(output, "rendezvous: " + text));
    const auto end = output.find("the run ended after 0 attempts");
    REQUIRE(end != std::string::npos);
    CHECK(output.find("the rendezvous " + text) < end);
  }

  TEST_CASE("nodes: different commands are reported on both nodes and the run continues") {
    const FreePort port;
    const auto start = [&](int number, const std::string& script) {
      auto options = static_node(number, port);
      options.push_back("--node_rank=" + std::to_string(number - 2));
      return Program(launch(options, script));
    };
    auto host = start(2, "true first");
    REQUIRE(has_come_first(host));
    auto other = start(3, "true second");
    CHECK(other.wait() == 0);
    CHECK(host.wait() == 0);
    for (const auto* node : {&host, &other}) {
      CAPTURE(node->output());
      CHECK(contains(node->output(),
                     "127.0.0.3 runs \"sh -c 'true second'\" and 127.0.0.2 \"sh "
                     "-c 'true first'\"; nodes of one run should run the same"));
    }
  }

  TEST_CASE("nodes: missing nodes of a configuration file are named") {
    const TemporaryFolder folder;
    const FreePort port;
    write_file(folder / "three.json",
               R"({"version": 1, "nodes": [{"name": "node[1-3]"}], "security": {"mode": "open"}})");
    Program alone(launch(
        {"--config=" + (folder / "three.json"), "--node_name=node1", "--master_addr=127.0.0.1",
         "--master_port=" + port.text(), "--rdzv_conf=join_timeout=0.5"},
        "true"));
    CHECK(alone.wait() == 1);
    CHECK(contains(alone.output(),
                   "only 1 of at least 3 nodes joined within 0.5 s (join_timeout): node1; missing: "
                   "node2, node3"));
  }

  TEST_CASE("nodes: a node reports wait and rendezvous and outcome") {
    Cluster cluster("2", "true");
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("meeting the other nodes of run cluster at 127.0.0.2:"));
    CHECK_FALSE(contains(host.output(), "node 0 of 2"));
    auto& other = cluster.start(3);
    CHECK(other.wait() == 0);
    CHECK(host.wait() == 0);
    for (const auto* node : {&host, &other}) {
      const auto& output = node->output();
      CHECK(output.find("meeting the other nodes") < output.find(" of 2, rank "));
      CHECK(contains(output, "the run has ended after 1 attempt: all workers succeeded\n"));
    }
  }

  TEST_CASE("nodes: a node that is asked to stop leaves and the run continues") {
    const TemporaryFolder folder;
    Cluster cluster("1:2",
                    "echo at work; while [ ! -e " + folder / "done" + " ]; do sleep 0.02; done");
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    REQUIRE(other.read_until_contains("at work"));
    other.signal(SIGTERM);
    CHECK(other.wait() == 128 + SIGTERM);
    CHECK(contains(other.output(),
                   "left the run after 1 attempt with exit code 143: this node was asked to stop "
                   "by SIGTERM"));
    CHECK_FALSE(contains(other.output(), "the run ended"));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
  }

  TEST_CASE("nodes: the loss of a node is logged even at level warning") {
    const TemporaryFolder folder;
    const auto wait = "echo at work; while [ ! -e " + folder / "done" + " ]; do sleep 0.02; done";
    const std::map<std::string, std::string> quiet = {{"LOGLEVEL", "WARNING"}};
    Cluster cluster("1:3", wait, {}, "last_call_timeout=5,lease_timeout=5,rejoin_timeout=0.5");
    auto& host = cluster.start(2, {}, quiet);
    auto& second = cluster.start(3, {}, quiet);
    auto& third = cluster.start(4);
    for (auto* node : {&host, &second, &third}) REQUIRE(node->read_until_contains("at work"));
    third.signal(SIGKILL);
    for (auto* node : {&host, &second}) {
      REQUIRE(node->read_until_contains("restarting: 127.0.0.4 is lost: "));
    }
    third.wait();
    host.signal(SIGKILL);
    REQUIRE(second.read_until_contains("the rendezvous is lost: "));
    CHECK(second.wait() == 1);
    host.wait();
  }

  TEST_CASE("nodes: an unused spare reports the outcome") {
    const TemporaryFolder folder;
    const auto wait = "while [ ! -e " + folder / "done" + " ]; do sleep 0.02; done";
    Cluster with_spare("2", wait);
    auto& host = with_spare.start(2);
    auto& second = with_spare.start(3);
    REQUIRE(host.read_until_contains("node 0 of 2"));
    auto& spare = with_spare.start(4);
    REQUIRE(spare.read_until_contains("this one waits to replace another"));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(second.wait() == 0);
    CHECK(spare.wait() == 0);
    CHECK(contains(spare.output(), "the run has ended after 1 attempt: all workers succeeded\n"));
  }

  TEST_CASE("nodes: a foreign server at the rendezvous address is identified") {
    const std::pair<const char*, const char*> rows[] = {
        {"HTTP/1.0 400 Bad Request\r\n\r\n", "it is an HTTP server, not a ddprun rendezvous"},
        {"SSH-2.0-OpenSSH\r\n", "it is an ssh server, not a ddprun rendezvous"},
        {"",
         "its connection was closed before it sent anything: it is another program, such as "
         "torchrun, or is ending"},
    };
    for (const auto& [answer, expected] : rows) {
      auto server = answering(answer);
      REQUIRE(server.read_until_contains("\n"));
      const auto port = server.output().substr(5, server.output().find('\n') - 5);
      Cluster cluster("2", "true", {}, "join_timeout=0.5");
      auto& node = cluster.start(3, {"--rdzv_endpoint=127.0.0.2:" + port});
      CHECK(node.wait() == 1);
      CHECK_MESSAGE(contains(node.output(), expected), node.output());
      server.signal(SIGKILL);
      server.wait();
    }
  }

  TEST_CASE("nodes: an unknown rendezvous host ends the run with a report") {
    const TemporaryFolder folder;
    Cluster cluster("2", "true", {"--events=" + (folder / "events")});
    auto& node = cluster.start(2, {"--rdzv_endpoint=no-such-host.invalid:29400",
                                   "--rdzv_conf=join_timeout=0.1,is_host=1"});
    CHECK(node.wait() == 1);
    CHECK(contains(node.output(),
                   "the run ended after 0 attempts with exit code 1: rendezvous at "
                   "no-such-host.invalid:29400: cannot look up"));
    CHECK(contains(node.output(), "(0.1 s allowed)"));
    const auto events = read_json_lines(folder / "events");
    REQUIRE(events.size() >= 2);
    CHECK(events.front().at("event") == "run_started");
    CHECK(events.back().at("event") == "run_finished");
    CHECK(events.back().at("result") == "no_rendezvous");
    CHECK(events.back().at("exit_code") == 1);
  }

  TEST_CASE("nodes: a rendezvous port in use ends the run with a report") {
    auto taken = answering("");
    REQUIRE(taken.read_until_contains("\n"));
    const TemporaryFolder folder;
    const auto port = taken.output().substr(5, taken.output().find('\n') - 5);
    Cluster cluster("2", "true", {"--events=" + (folder / "events")});
    auto& node = cluster.start(2, {"--rdzv_endpoint=127.0.0.2:" + port});
    CHECK(node.wait() == 1);
    CHECK(contains(node.output(), "the run ended after 0 attempts with exit code 1: "));
    CHECK(contains(node.output(), " is in use by process "));
    const auto events = read_json_lines(folder / "events");
    REQUIRE(events.size() >= 2);
    CHECK(events.back().at("event") == "run_finished");
    CHECK(events.back().at("result") == "agent_failed");
  }

  TEST_CASE("nodes: a host that hangs is reported with its address and the time") {
    Cluster cluster("3", "true", {}, "join_timeout=1");
    auto& host = cluster.start(2, {"--rdzv_conf=join_timeout=60,is_host=1"});
    REQUIRE(host.read_until_contains("this node hosts the rendezvous"));
    host.signal(SIGSTOP);
    auto& node = cluster.start(3);
    CHECK(node.wait() == 1);
    // For the rest of the second in which it connected.
    CHECK(contains(node.output(), "the rendezvous at 127.0.0.2:" + std::to_string(cluster.port()) +
                                      " accepts connections but has not responded for "));
    CHECK(contains(node.output(),
                   ": it hangs or is another program, such as torchrun; gave up after 1 s"));
    host.signal(SIGCONT);
    host.signal(SIGTERM);
    CHECK(host.wait() == 128 + SIGTERM);
  }
}

}  // namespace nodes_messages_test
