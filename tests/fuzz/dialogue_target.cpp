#include "tests/fuzz/dialogue_target.hpp"

#include "tests/fuzz/promise.hpp"
#include "tests/support/dialogues.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::fuzz {

namespace {

using namespace membership;
using test::Dialogues;

const security::Secret& secret() {
  static const security::Secret secret = test::secret_of('s');
  return secret;
}

const std::string kNonce(security::kDigestBytes, 'n');
const Join kJoin = {.run_id = "run", .name = "a"};

/// Results of a side for unauthenticated input.
struct Reaction {
  std::string sent{};
  std::size_t messages = 0;
  /// The text may depend on the pieces: a peer is identified by the bytes received so far.
  bool has_problem = false;

  bool operator==(const Reaction&) const = default;
};

Reaction react_as_coordinator(std::string_view bytes, std::size_t piece) {
  CoordinatorDialogue dialogue(&secret(), kNonce);
  Reaction reaction;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    dialogue.feed(bytes.substr(at, piece));
    while (dialogue.next()) ++reaction.messages;
    reaction.sent += dialogue.take_outgoing();
  }
  reaction.has_problem = !dialogue.problem().empty();
  require(!dialogue.is_introduced(), "a stranger is never introduced");
  return reaction;
}

Reaction react_as_agent(std::string_view bytes, std::size_t piece) {
  AgentDialogue dialogue(&secret(), "run", kNonce);
  dialogue.send(kJoin);
  dialogue.take_outgoing();
  Reaction reaction;
  for (std::size_t at = 0; at < bytes.size() && !reaction.has_problem; at += piece) {
    dialogue.feed(bytes.substr(at, piece));
    while (const auto message = dialogue.next()) {
      require(std::holds_alternative<Refused>(*message), "a stranger can only refuse");
      ++reaction.messages;
    }
    reaction.sent += dialogue.take_outgoing();
    reaction.has_problem = !dialogue.problem().empty();
  }
  return reaction;
}

void face_coordinator(std::string_view bytes) {
  const auto reaction = react_as_coordinator(bytes, bytes.size() + 1);
  require(reaction == react_as_coordinator(bytes, 3), "pieces mean what the whole means");
  require(reaction.messages == 0, "no message of an unauthenticated peer is delivered");
  constexpr std::size_t kRefusalBytesMax = 256;
  require(reaction.sent.size() <= kRefusalBytesMax, "a stranger gets little");
}

void face_agent(std::string_view bytes) {
  const auto reaction = react_as_agent(bytes, bytes.size() + 1);
  require(reaction == react_as_agent(bytes, 3), "pieces mean what the whole means");
  require(reaction.messages <= 1, "at most one message of an unauthenticated peer is delivered");
  require(reaction.sent.find_first_not_of('\0') == std::string::npos,
          "a stranger learns nothing from an agent");
}

/// Returns true if the messages are a prefix of those sent.
template <typename Message>
bool is_beginning(const std::vector<Message>& received, const std::vector<Message>& sent) {
  return received.size() <= sent.size() &&
         std::equal(received.begin(), received.end(), sent.begin());
}

void tamper(std::string_view changes) {
  std::map<std::size_t, char> by_place;
  for (; changes.size() >= 3; changes.remove_prefix(3)) {
    const auto place =
        static_cast<unsigned char>(changes[0]) % 2U * 256U + static_cast<unsigned char>(changes[1]);
    by_place[place] = changes[2];
  }
  std::size_t passed = 0;
  Dialogues dialogues({&secret(), &secret()}, [&](std::string bytes, bool) {
    for (const auto& [place, change] : by_place) {
      if (place < passed || place >= passed + bytes.size()) continue;
      bytes[place - passed] = static_cast<char>(bytes[place - passed] ^ change);
    }
    passed += bytes.size();
    return bytes;
  });
  const std::vector<NodeMessage> by_agent = {kJoin, Heartbeat{1}};
  const std::vector<CoordinatorMessage> by_coordinator = {Welcome{}, HeartbeatAnswer{1}};
  for (const auto& message : by_agent) dialogues.agent.send(message);
  dialogues.run();
  const bool is_introduced = dialogues.coordinator.is_introduced();
  if (is_introduced) {
    for (const auto& message : by_coordinator) dialogues.coordinator.send(message);
  }
  dialogues.run();
  require(is_beginning(dialogues.sent_by_agent, by_agent),
          "the coordinator receives the sent messages");
  const auto& received = dialogues.sent_by_coordinator;
  const bool is_refused = received.size() == 1 && std::holds_alternative<Refused>(received[0]);
  require(is_refused || is_beginning(received, by_coordinator),
          "the agent receives the sent messages");
}

}  // namespace

void run_dialogue(std::span<const std::uint8_t> input) {
  if (input.empty()) return;
  const std::string bytes(input.begin() + 1, input.end());
  switch (input.front() % 3) {
    case 0:
      return face_coordinator(bytes);
    case 1:
      return face_agent(bytes);
    default:
      return tamper(bytes);
  }
}

}  // namespace ddprun::fuzz
