#include "rendezvous/membership/foreign_speech.hpp"

namespace ddprun::membership {

namespace {

struct Speech {
  std::string_view begin;
  const char* whose;
};

constexpr Speech kSpeeches[] = {
    {"HTTP/", "is an HTTP server, no rendezvous of ddprun"},
    {"SSH-", "is an ssh server, no rendezvous of ddprun"},
    {"220 ", "is a mail or FTP server, no rendezvous of ddprun"},
    {"-ERR ", "is a Redis server, no rendezvous of ddprun"},
    {"\x15\x03", "expects TLS, which a rendezvous of ddprun does not"},
};

}  // namespace

std::string describe_foreign(std::string_view first_bytes) {
  for (const auto& speech : kSpeeches) {
    if (first_bytes.starts_with(speech.begin)) return speech.whose;
  }
  return {};
}

}  // namespace ddprun::membership
