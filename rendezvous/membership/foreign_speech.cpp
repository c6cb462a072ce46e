#include "rendezvous/membership/foreign_speech.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

struct Speech {
  std::string_view begin;
  const char* whose;
};

/// The length of a message: the first from which something can be seen to be wrong.
constexpr std::size_t kTellingBytes = 4;

constexpr const char* kHttpServer = "is an HTTP server, no rendezvous of ddprun";

constexpr Speech kSpeeches[] = {
    {"HTTP/", kHttpServer},
    // What to them is a request of the first version gets a page without a head.
    {"<!DOCTYPE", kHttpServer},
    {"<html", kHttpServer},
    {"SSH-", "is an ssh server, no rendezvous of ddprun"},
    {"220 ", "is a mail or FTP server, no rendezvous of ddprun"},
    {"-ERR ", "is a Redis server, no rendezvous of ddprun"},
    {"\x15\x03", "expects TLS, which a rendezvous of ddprun does not"},
};

}  // namespace

std::string describe_foreign(std::string_view first_bytes) {
  for (const auto& speech : kSpeeches) {
    const auto known = std::min(first_bytes.size(), speech.begin.size());
    const bool is_enough = known >= std::min(kTellingBytes, speech.begin.size());
    if (is_enough && first_bytes.substr(0, known) == speech.begin.substr(0, known)) {
      return speech.whose;
    }
  }
  return {};
}

}  // namespace ddprun::membership
