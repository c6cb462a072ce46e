#include "tests/fuzz/store_target.hpp"

#include "rendezvous/store/store_table.hpp"
#include "rendezvous/wire/reply.hpp"
#include "rendezvous/wire/request_parser.hpp"
#include "tests/fuzz/promise.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::fuzz {

namespace {

constexpr std::size_t kClients = 4;
constexpr unsigned kToTheEnd = 63;
constexpr std::size_t kPartKeys = 2;

// Small, so that the fuzzer reaches them.
constexpr StoreLimits kLimits{
    .connections_max = kClients, .bytes_max = 4096, .waits_max = 6, .unread_bytes_max = 512};

// Waits and watches, and the last request before the table is full, may exceed the limit slightly.
constexpr std::size_t kBytesTolerated = 64 * 1024;

class Run {
 public:
  /// Passes bytes of a client like the server.
  void on_message(std::size_t client, std::string_view bytes) {
    auto& speaker = clients_[client];
    while (auto request = speaker.parser.next(bytes)) {
      require(speaker.parser.held_bytes() == 0, "a whole request holds no memory");
      check_encoding(*request, speaker.parser.dialect());
      while (table_.apply_part(speaker.id, *request, speaker.parser.dialect(), kPartKeys))
        check({});
      StoreOutcome outcome =
          table_.apply(speaker.id, std::move(*request), speaker.parser.dialect());
      check(outcome);
      if (!outcome.refusal.empty()) return close_connection(client);
    }
    require(bytes.empty() || speaker.parser.is_malformed(), "the parser takes all it is given");
    if (speaker.parser.is_malformed()) close_connection(client);
  }

  void close_connection(std::size_t client) {
    table_.drop(clients_[client].id);
    clients_[client] = {.id = ++last_id_, .parser = {}};
  }

  void finish() {
    for (std::size_t client = 0; client < kClients; ++client) close_connection(client);
    require(table_.number_of_waits() == 0, "nobody waits when all are gone");
    table_.clear();
    require(table_.bytes() == 0, "an empty table holds nothing");
  }

 private:
  struct Client {
    ClientId id = 0;
    wire::RequestParser parser;
  };

  /// A parsed request must round-trip.
  static void check_encoding(const wire::Request& request, wire::Dialect dialect) {
    std::string bytes;
    if (dialect == wire::Dialect::modern) wire::append_validate(bytes);
    wire::append_request(bytes, request, dialect);
    wire::RequestParser parser;
    std::string_view input = bytes;
    const auto again = parser.next(input);
    require(again && *again == request && input.empty(), "a request survives encoding");
  }

  void check(const StoreOutcome& outcome) const {
    for (const auto& [id, reply] : outcome.replies) {
      require(std::any_of(clients_.begin(), clients_.end(),
                          [client = id](const Client& other) { return other.id == client; }),
              "replies go to clients that are there");
      std::string bytes;
      wire::append_reply(bytes, reply);
      const auto* values = std::get_if<wire::Values>(&reply);
      require(!bytes.empty() || (values != nullptr && values->values.empty()),
              "a reply has bytes unless nothing was asked for");
    }
    require(table_.number_of_waits() <= kLimits.waits_max, "waits are bounded");
    require(table_.bytes() <= kLimits.bytes_max + kBytesTolerated, "bytes are bounded");
  }

  StoreTable table_{kLimits};
  std::array<Client, kClients> clients_ = {Client{.id = 1, .parser = {}},
                                           {.id = 2, .parser = {}},
                                           {.id = 3, .parser = {}},
                                           {.id = 4, .parser = {}}};
  ClientId last_id_ = kClients;
};

}  // namespace

void run_store(std::span<const std::uint8_t> input) {
  Run run;
  std::string_view rest(reinterpret_cast<const char*>(input.data()), input.size());
  while (!rest.empty()) {
    const auto head = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    const std::size_t client = head % kClients;
    const unsigned length = head / kClients;
    const auto message = rest.substr(0, length == kToTheEnd ? rest.size() : length);
    rest.remove_prefix(message.size());
    if (message.empty()) {
      run.close_connection(client);
    } else {
      run.on_message(client, message);
    }
  }
  run.finish();
}

}  // namespace ddprun::fuzz
