// Messages between an agent and a coordinator, with and without a secret.
#include "tests/support/dialogues.hpp"

#include <doctest/doctest.h>

namespace dialogue_test {

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::test;

namespace {

const security::Secret kSecret = secret_of('s');
const security::Secret kOther = secret_of('t');
const Dialogues::Sides kBoth = {&kSecret, &kSecret};

const Join kJoin = {.run_id = "run", .name = "a"};
const std::string kNoSecret = "does not know this run's secret";

std::string refusal_in(const std::vector<CoordinatorMessage>& messages) {
  if (messages.size() != 1) return std::to_string(messages.size()) + " messages";
  const auto* refused = std::get_if<Refused>(&messages[0]);
  return refused == nullptr ? "another message" : refused->reason;
}

std::string bytes_of(const CoordinatorMessage& message) {
  std::string bytes;
  append_message(bytes, message);
  return bytes;
}

/// Both sides send two messages.
void exchange_messages(Dialogues& dialogues, std::size_t piece = std::string::npos) {
  dialogues.agent.send(kJoin);
  dialogues.run(piece);
  dialogues.agent.send(Heartbeat{1});
  dialogues.coordinator.send(Welcome{});
  dialogues.coordinator.send(HeartbeatAnswer{1});
  dialogues.run(piece);
}

}  // namespace

TEST_SUITE("dialogue") {
  TEST_CASE("dialogue: messages of both sides are decoded for any size of reads") {
    for (const auto& sides : {Dialogues::Sides{}, kBoth}) {
      for (const std::size_t piece : {1, 2, 3, 7, 64, 1000}) {
        Dialogues dialogues(sides);
        exchange_messages(dialogues, piece);
        CHECK(dialogues.sent_by_agent == std::vector<NodeMessage>{kJoin, Heartbeat{1}});
        CHECK(dialogues.sent_by_coordinator ==
              std::vector<CoordinatorMessage>{Welcome{}, HeartbeatAnswer{1}});
        CHECK(dialogues.coordinator.is_introduced());
        CHECK(dialogues.agent.problem().empty());
        CHECK(dialogues.coordinator.problem().empty());
      }
    }
  }

  TEST_CASE("dialogue: a wrong secret is reported on both sides") {
    Dialogues dialogues({&kSecret, &kOther});
    dialogues.agent.send(kJoin);
    dialogues.run();
    CHECK(dialogues.agent.problem() == kNoSecret);
    CHECK(dialogues.coordinator.problem() == kNoSecret);
    CHECK(refusal_in(dialogues.sent_by_coordinator).find(kNoSecret) != std::string::npos);
    CHECK(dialogues.sent_by_agent.empty());
    CHECK_FALSE(dialogues.coordinator.is_introduced());
    CHECK_FALSE(dialogues.agent.is_proven());
  }

  TEST_CASE("dialogue: an agent reports that only one side has a secret") {
    struct Row {
      Dialogues::Sides sides;
      std::string text;
    };
    for (const auto& row :
         {Row{{&kSecret, nullptr},
              "the node that joins has a secret (--secret_file), the run has none"},
          Row{{nullptr, &kSecret},
              "the run has a secret, the node that joins has none (--secret_file)"}}) {
      Dialogues dialogues(row.sides);
      dialogues.agent.send(kJoin);
      dialogues.run();
      CHECK(refusal_in(dialogues.sent_by_coordinator) == row.text);
      CHECK(dialogues.coordinator.refusal() == row.text);
      CHECK(dialogues.sent_by_agent.empty());
      // A node without a secret does not ask for a proof.
      CHECK(dialogues.agent.is_proven() == (row.sides.agent == nullptr));
    }
  }

  TEST_CASE("dialogue: an agent sends only a hello until the coordinator is authenticated") {
    AgentDialogue agent(&kSecret, "run", std::string(security::kDigestBytes, 'a'));
    agent.send(kJoin);
    const auto opening = agent.take_outgoing();
    CHECK(opening.size() == greeting().size() + 1 + security::kHelloBytes);
    CHECK(opening.size() <= 128);
    // Neither the run's name nor a value derived from the name alone.
    CHECK(AgentDialogue(&kOther, "run", std::string(security::kDigestBytes, 'a')).take_outgoing() !=
          opening);
    agent.send(Heartbeat{});
    CHECK(agent.take_outgoing().empty());
  }

  TEST_CASE("dialogue: an unauthenticated coordinator can send only a refusal") {
    struct Row {
      std::string bytes;
      std::size_t messages;
      std::string problem;
    };
    const std::string unproved = "answered without a proof that it knows this run's secret";
    const Row rows[] = {
        {bytes_of(Refused{"other version"}), 1, unproved},
        {bytes_of(Welcome{}), 0, unproved},
        {bytes_of(Finish{}), 0, unproved},
        {bytes_of(Waiting{"x"}).substr(0, 6), 0, ""},
        {std::string("\xff\xff\xff\x7f\1", 5), 0,
         "sent a message of 2147483647 bytes (at most 4096)"},
        {std::string("\x41\0\0\0\xff", 5) + std::string(63, 'x'), 0, ""},
        {std::string("\x41\0\0\0\xff", 5) + std::string(64, 'x'), 1, kNoSecret},
        {std::string("\x42\0\0\0\xff", 5) + std::string(65, 'x'), 0,
         "sent bytes that are not an agent's message"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.problem);
      AgentDialogue agent(&kSecret, "run", std::string(security::kDigestBytes, 'a'));
      agent.send(kJoin);
      agent.feed(row.bytes);
      std::size_t messages = 0;
      while (auto message = agent.next()) {
        CHECK(std::holds_alternative<Refused>(*message));
        ++messages;
      }
      CHECK(messages == row.messages);
      CHECK(agent.problem() == row.problem);
    }
  }

  TEST_CASE("dialogue: a coordinator sends an unauthenticated peer only one challenge") {
    CoordinatorDialogue coordinator(&kSecret, std::string(security::kDigestBytes, 'c'));
    coordinator.feed(greeting() + '\1' + std::string(security::kHelloBytes, 'x'));
    constexpr std::size_t kHead = 5;
    CHECK(coordinator.take_outgoing().size() == kHead + security::kChallengeBytes);
    coordinator.feed(std::string(security::kProofBytes - 1, 'x'));
    CHECK(coordinator.take_outgoing().empty());
    CHECK(coordinator.problem().empty());
    coordinator.feed(std::string(1000, 'x'));
    CHECK(coordinator.take_outgoing().empty());
    CHECK(coordinator.problem() == kNoSecret);
    CHECK_FALSE(coordinator.next());
  }

  TEST_CASE("dialogue: a coordinator rejects the replay of a session with another coordinator") {
    std::string recorded;
    Dialogues first(kBoth, [&](std::string bytes, bool is_from_agent) {
      if (is_from_agent) recorded += bytes;
      return bytes;
    });
    exchange_messages(first);
    REQUIRE(first.sent_by_agent.size() == 2);
    CoordinatorDialogue second(&kSecret, std::string(security::kDigestBytes, 'd'));
    second.feed(recorded);
    CHECK_FALSE(second.next());
    CHECK(second.problem() == kNoSecret);
  }

  TEST_CASE("dialogue: an agent rejects its own messages when they are reflected") {
    AgentDialogue agent(&kSecret, "run", std::string(security::kDigestBytes, 'a'));
    agent.send(kJoin);
    agent.feed(agent.take_outgoing());
    CHECK_FALSE(agent.next());
    CHECK_FALSE(agent.problem().empty());
    // Messages of another coordinator do not authenticate an agent.
    CoordinatorDialogue honest(&kSecret, std::string(security::kDigestBytes, 'c'));
    honest.feed(greeting() + '\1' + std::string(security::kHelloBytes, 'x'));
    const auto challenge = honest.take_outgoing();
    honest.feed(challenge.substr(challenge.size() - security::kProofBytes));
    CHECK(honest.problem() == kNoSecret);
  }

  TEST_CASE("dialogue: a modified byte ends the connection without delivering a message") {
    std::size_t total = 0;
    Dialogues counting(kBoth, [&](std::string bytes, bool) {
      total += bytes.size();
      return bytes;
    });
    exchange_messages(counting);
    for (std::size_t target = 0; target < total; ++target) {
      std::size_t passed = 0;
      Dialogues dialogues(kBoth, [&](std::string bytes, bool) {
        if (target >= passed && target < passed + bytes.size()) {
          auto& byte = bytes[target - passed];
          byte = static_cast<char>(byte ^ 0x10);
        }
        passed += bytes.size();
        return bytes;
      });
      exchange_messages(dialogues);
      CAPTURE(target);
      const std::vector<NodeMessage> by_agent = {kJoin, Heartbeat{1}};
      CHECK(dialogues.sent_by_agent.size() <= by_agent.size());
      CHECK(std::equal(dialogues.sent_by_agent.begin(), dialogues.sent_by_agent.end(),
                       by_agent.begin()));
      for (const auto& message : dialogues.sent_by_coordinator) {
        const bool is_true = message == CoordinatorMessage{Welcome{}} ||
                             message == CoordinatorMessage{HeartbeatAnswer{1}};
        CHECK((is_true || std::holds_alternative<Refused>(message)));
      }
      CHECK(dialogues.sent_by_agent.size() + dialogues.sent_by_coordinator.size() < 4);
    }
  }

  TEST_CASE("dialogue: the size of the first message is limited even for authenticated nodes") {
    Dialogues dialogues(kBoth);
    dialogues.agent.send(Join{.run_id = std::string(5000, 'x')});
    dialogues.run();
    CHECK(dialogues.sent_by_agent.empty());
    CHECK(dialogues.coordinator.problem().find("bytes (at most 4096)") != std::string::npos);
  }
}

}  // namespace dialogue_test
