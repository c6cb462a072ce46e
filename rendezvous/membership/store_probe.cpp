#include "rendezvous/membership/store_probe.hpp"

#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/message_channel.hpp"
#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/request.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

/// A server of the legacy dialect takes a part of it for the upper bytes of a length, which is then
/// too large for memory to be allocated.
constexpr std::uint32_t kNonce = 0xDDDDDDDD;

/// The reply to GETNUMKEYS.
constexpr std::size_t kCountBytes = sizeof(std::int64_t);

/// The first `bytes` of the answer, or what there is of it when the connection ends.
asio::awaitable<std::string> ask(StoreEndpoint endpoint, std::string question, std::size_t bytes,
                                 Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const auto connection = co_await connect_to(endpoint, deadline);
  if (connection.fd < 0) co_return std::string();
  const auto channel = std::make_shared<MessageChannel>(executor, connection.fd);
  asio::steady_timer limit(executor, Deadline::Clock::now() + deadline.remaining());
  limit.async_wait([channel](boost::system::error_code error) {
    if (!error) channel->close();
  });
  channel->send(question);
  std::string answer;
  while (answer.size() < bytes) {
    const std::string part = co_await channel->receive();
    if (part.empty()) break;
    answer += part;
  }
  co_return answer;
}

}  // namespace

asio::awaitable<bool> answers_as_store(StoreEndpoint endpoint, Deadline deadline) {
  std::string ping, nonce;
  wire::append_validate(ping);
  wire::append_request(ping, wire::Ping{kNonce}, wire::Dialect::modern);
  wire::append_integer(nonce, kNonce);
  const auto echo = co_await ask(endpoint, std::move(ping), nonce.size(), deadline);
  if (echo == nonce) co_return true;
  std::string count;
  wire::append_request(count, wire::NumberOfKeys{}, wire::Dialect::legacy);
  const auto keys = co_await ask(endpoint, std::move(count), kCountBytes, deadline);
  // A number below 2^32: no text.
  constexpr std::size_t kLowBytes = 4;
  const bool is_count =
      keys.size() == kCountBytes && keys.find_first_not_of('\0', kLowBytes) == std::string::npos;
  co_return is_count;
}

}  // namespace ddprun::membership
