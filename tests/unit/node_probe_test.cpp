// Requests to a node to probe its peers.
#include "rendezvous/membership/node_state_machine.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace node_probe_test {

using namespace ddprun::membership;
using namespace std::chrono_literals;

namespace {

constexpr Time kBegin{std::chrono::hours(1)};

class ProbedNode {
 public:
  ProbedNode() : part_(Join{.name = "a"}, Settings{}, kBegin) {
    part_.start(kBegin);
    connect();
  }

  void connect() {
    join = std::get<Join>(sent_by(take(Connected{.probe = {"10.0.0.7", 4000}})).at(0));
    take(MessageReceived{Welcome{3s}});
  }

  int request_probe(std::uint32_t number) {
    for (const auto& action : take(MessageReceived{Probe{.number = number}})) {
      if (const auto* probing = std::get_if<ProbePeers>(&action)) return probing->serial;
    }
    return 0;
  }

  std::vector<NodeMessage> answers(int serial, const std::vector<std::uint32_t>& unreachable) {
    return sent_by(take(PeersProbed{serial, unreachable}));
  }

  Join join;  ///< of the latest connection

  std::vector<NodeAction> take(const NodeEvent& event) { return part_.apply(event, kBegin); }

 private:
  static std::vector<NodeMessage> sent_by(const std::vector<NodeAction>& actions) {
    std::vector<NodeMessage> messages;
    for (const auto& action : actions) {
      if (const auto* send = std::get_if<Send>(&action)) messages.push_back(send->message);
    }
    return messages;
  }

  NodeStateMachine part_;
};

}  // namespace

TEST_SUITE("node probe") {
  TEST_CASE("node probe: a node sends its probe address when it joins") {
    CHECK(ProbedNode().join.probe == ProbeAddress{"10.0.0.7", 4000});
  }

  TEST_CASE("node probe: a probe is answered once and with its number") {
    ProbedNode node;
    const int serial = node.request_probe(5);
    CHECK(node.answers(serial, {1, 2}) == std::vector<NodeMessage>{Probed{5, {1, 2}}});
    CHECK(node.answers(serial, {1, 2}).empty());
  }

  TEST_CASE("node probe: a late result of an earlier probe is ignored") {
    ProbedNode node;
    const int first = node.request_probe(5);
    const int second = node.request_probe(6);
    CHECK(node.answers(first, {1}).empty());
    CHECK(node.answers(second, {}) == std::vector<NodeMessage>{Probed{6, {}}});
  }

  TEST_CASE("node probe: a node ignores requests beyond four concurrent probes") {
    ProbedNode node;
    std::vector<int> serials;
    for (std::uint32_t number = 1; number <= 4; ++number)
      serials.push_back(node.request_probe(number));
    CHECK(node.request_probe(5) == 0);
    CHECK(node.answers(serials.back(), {}) == std::vector<NodeMessage>{Probed{4, {}}});
    CHECK(node.request_probe(6) != 0);
  }

  TEST_CASE("node probe: results requested by a lost connection are ignored") {
    ProbedNode node;
    const int first = node.request_probe(1);
    node.take(ConnectionLost{"reset"});
    CHECK(node.answers(first, {1}).empty());
    node.connect();
    const int second = node.request_probe(1);
    CHECK(node.answers(first, {1}).empty());
    CHECK(node.answers(second, {}).size() == 1);
  }
}

}  // namespace node_probe_test
