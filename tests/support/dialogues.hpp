// Both ends of a connection between agent and coordinator, without sockets: the test passes the
// bytes on whole, in pieces, or changed.
#pragma once

#include "rendezvous/membership/dialogue.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

inline security::Secret secret_of(char letter) {
  return security::Secret::from_bytes(std::string(40, letter), "a test");
}

class Dialogues {
 public:
  /// Gets the bytes that one side sends, and the side; returns the bytes to deliver.
  using Carry = std::function<std::string(std::string bytes, bool is_from_agent)>;

  struct Sides {
    const security::Secret* agent = nullptr;
    const security::Secret* coordinator = nullptr;
  };

  explicit Dialogues(const Sides& sides, Carry carry = {}, char nonce = 'c')
      : agent(sides.agent, "run", std::string(security::kDigestBytes, 'a')),
        coordinator(sides.coordinator, std::string(security::kDigestBytes, nonce)),
        carry_(std::move(carry)) {}

  /// Passes bytes in pieces of this size until no side has anything to send.
  void run(std::size_t piece = std::string::npos) {
    for (bool has_sent = true; has_sent;) {
      has_sent = pass(agent.take_outgoing(), true, piece);
      has_sent |= pass(coordinator.take_outgoing(), false, piece);
    }
  }

  membership::AgentDialogue agent;
  membership::CoordinatorDialogue coordinator;
  std::vector<membership::NodeMessage> sent_by_agent;  ///< as received by the other side
  std::vector<membership::CoordinatorMessage> sent_by_coordinator;

 private:
  bool pass(std::string bytes, bool is_from_agent, std::size_t piece) {
    const bool has_sent = !bytes.empty();
    if (carry_ && has_sent) bytes = carry_(bytes, is_from_agent);
    while (!bytes.empty()) {
      const auto part = bytes.substr(0, piece);
      bytes.erase(0, part.size());
      if (is_from_agent) {
        coordinator.feed(part);
        while (auto message = coordinator.next()) sent_by_agent.push_back(std::move(*message));
      } else {
        agent.feed(part);
        while (auto message = agent.next()) sent_by_coordinator.push_back(std::move(*message));
      }
    }
    return has_sent;
  }

  Carry carry_;
};

}  // namespace ddprun::test
