// Peers of an agent or a coordinator that are other programs.
#include "rendezvous/membership/foreign_peer.hpp"

#include "rendezvous/membership/dialogue.hpp"
#include "tests/support/dialogues.hpp"

#include <doctest/doctest.h>

namespace foreign_peer_test {

using namespace ddprun::membership;
using ddprun::test::secret_of;

namespace {

const ddprun::security::Secret kSecret = secret_of('s');

/// Returns the problem that an agent finds in these bytes, received one at a time.
std::string problem_with(const ddprun::security::Secret* secret, std::string_view bytes) {
  AgentDialogue agent(secret, "run", std::string(ddprun::security::kDigestBytes, 'n'));
  for (const char byte : bytes) {
    agent.feed(std::string_view(&byte, 1));
    if (agent.next() || !agent.problem().empty()) break;
  }
  return agent.problem();
}

}  // namespace

TEST_SUITE("foreign peer") {
  TEST_CASE("foreign peer: a server of another protocol is identified with or without a secret") {
    const struct {
      std::string_view bytes;
      const char* problem;
    } rows[] = {
        {"HTTP/1.0 400 Bad Request\r\n\r\n", "is an HTTP server, not a ddprun rendezvous"},
        {"<!DOCTYPE HTML PUBLIC", "is an HTTP server, not a ddprun rendezvous"},
        {"<html>\r\n<head>", "is an HTTP server, not a ddprun rendezvous"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "is an ssh server, not a ddprun rendezvous"},
        {"220 mail ESMTP\r\n", "is a mail or FTP server, not a ddprun rendezvous"},
        {"-ERR unknown command\r\n", "is a Redis server, not a ddprun rendezvous"},
    };
    for (const auto& row : rows) {
      for (const auto* secret : {static_cast<const ddprun::security::Secret*>(nullptr), &kSecret}) {
        CHECK(problem_with(secret, row.bytes) == row.problem);
      }
      CHECK(describe_foreign(row.bytes) == row.problem);
    }
    CHECK(describe_foreign("SSH-2.0-OpenSSH_9.2\r\n", "etcd") == "is an ssh server, not etcd");
    // Its first bytes are also a valid length of a message.
    CHECK(describe_foreign({"\x15\x03\x01\x00\x02\x02\x46", 7}) ==
          "expects TLS, which ddprun does not use here");
  }

  TEST_CASE("foreign peer: a torchrun agent is recognised by its store keys") {
    using namespace ddprun::wire;
    CHECK(is_of_torchrun(CompareSet{"/torch.rendezvous.none", "", "Y2FuaW1hZGFt"}));
    CHECK(is_of_torchrun(Set{"/none/torchelastic/role_info1", "{}"}));
    CHECK(is_of_torchrun(Set{"/none/torchelastic/role_info/1", "{}"}));
    CHECK_FALSE(is_of_torchrun(CompareSet{"/rendezvous", "", "x"}));
    CHECK_FALSE(is_of_torchrun(Set{"/default_pg/0//worker0", "x"}));
    CHECK_FALSE(is_of_torchrun(Get{"/torch.rendezvous.none"}));
    CHECK_FALSE(is_of_torchrun(Add{"/init/", 1}));
  }

  TEST_CASE("foreign peer: a PyTorch store client is recognised by its first bytes") {
    std::string modern, legacy;
    ddprun::wire::append_validate(modern);
    ddprun::wire::append_request(legacy, ddprun::wire::CompareSet{"/key", "", ""},
                                 ddprun::wire::Dialect::legacy);
    CHECK(is_store_client(modern));
    CoordinatorDialogue dialogue(&kSecret, std::string(32, 'n'));
    dialogue.feed(modern);
    CHECK(dialogue.problem() == "is a client of PyTorch's store; " + std::string(kNoTorchrun));
    CHECK(is_store_client(legacy.substr(0, 1)));
    for (const std::string other : {"", "GET / HTTP/1.1", "DDPRUN/6", "\x16\x03\x01"}) {
      CHECK_FALSE(is_store_client(other));
    }
  }

  TEST_CASE("foreign peer: an unknown protocol is reported like a malformed message") {
    CHECK(describe_foreign("").empty());
    CHECK(describe_foreign("HTT").empty());
    CHECK(describe_foreign("HTTX/").empty());
    CHECK(problem_with(nullptr, "something else") ==
          "sent a message of 1701670771 bytes (at most 4194304)");
  }
}

}  // namespace foreign_peer_test
