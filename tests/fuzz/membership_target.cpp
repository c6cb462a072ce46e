#include "tests/fuzz/membership_target.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/membership/node_state_machine.hpp"
#include "tests/fuzz/promise.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::fuzz {

namespace {

using namespace membership;

template <typename Message>
struct Received {
  std::vector<Message> messages{};
  bool is_malformed = false;

  bool operator==(const Received&) const = default;
};

template <typename Message>
Received<Message> on_message(std::string_view bytes, std::size_t piece) {
  MessageReader<Message> reader;
  Received<Message> received;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    while (auto message = reader.next()) received.messages.push_back(std::move(*message));
  }
  received.is_malformed = reader.is_malformed();
  require(received.is_malformed == !reader.problem().empty(), "malformed bytes have a problem");
  return received;
}

template <typename Message>
std::vector<Message> messages_in(std::string_view bytes) {
  const auto whole = on_message<Message>(bytes, bytes.size() + 1);
  require(on_message<Message>(bytes, 3) == whole, "pieces mean what the whole means");
  std::string written;
  for (const auto& message : whole.messages) append_message(written, message);
  require(bytes.substr(0, written.size()) == written, "a message has one form");
  return whole.messages;
}

Settings settings() {
  Settings settings{.run_id = "r", .nodes_min = 2, .nodes_max = 3};
  settings.restarts.max_restarts = 1;
  settings.last_call_timeout = std::chrono::seconds(1);
  return settings;
}

constexpr Time kBegin{std::chrono::hours(1)};
constexpr NodeId kSpeakers = 3;
constexpr auto kStep = std::chrono::milliseconds(400);

void check(const std::vector<CoordinatorAction>& actions) {
  for (const auto& action : actions) {
    const auto* send = std::get_if<SendToNode>(&action);
    if (send == nullptr) continue;
    std::string bytes;
    append_message(bytes, send->message);
    require(messages_in<CoordinatorMessage>(bytes).size() == 1, "answers are messages");
  }
}

void run_coordinator(std::string_view bytes) {
  Time now = kBegin;
  Coordination coordination(settings(), now);
  NodeId speaker = 1;
  for (const auto& message : messages_in<NodeMessage>(bytes)) {
    check(coordination.apply(NodeMessageReceived{speaker, message}, now));
    now += kStep;
    check(coordination.apply(TimePassed{}, now));
    speaker = speaker % kSpeakers + 1;
  }
  for (NodeId node = 1; node <= kSpeakers; ++node)
    check(coordination.apply(NodeDisconnected{node, "it went"}, now));
}

void run_agent(std::string_view bytes) {
  Time now = kBegin;
  const Join self{.run_id = "r", .name = "a", .nodes_min = 2, .nodes_max = 3};
  NodeStateMachine part(self, settings(), now);
  part.start(now);
  part.apply(Connected{}, now);
  for (const auto& message : messages_in<CoordinatorMessage>(bytes)) {
    for (const auto& action : part.apply(MessageReceived{message}, now)) {
      if (const auto* start = std::get_if<StartWorkers>(&action)) {
        const auto& nodes = start->round.nodes;
        const auto place = static_cast<std::size_t>(start->round.node_rank);
        require(place < nodes.size() && nodes[place].role == self.role, "a node has its place");
      } else if (const auto* probing = std::get_if<ProbePeers>(&action)) {
        part.apply(PeersProbed{probing->serial, {0}}, now);
      } else if (std::holds_alternative<EndWorkers>(action)) {
        part.apply(OwnWorkersEnded{}, now);
      }
    }
    now += kStep;
    part.apply(NodeTimePassed{}, now);
  }
}

}  // namespace

void run_membership(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const std::string bytes(input.begin() + 1, input.end());
  if (input.front() % 2 == 0) return run_coordinator(bytes);
  run_agent(bytes);
}

}  // namespace ddprun::fuzz
