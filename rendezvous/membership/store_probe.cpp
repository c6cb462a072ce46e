#include "rendezvous/membership/store_probe.hpp"

#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/message_channel.hpp"
#include "rendezvous/wire/request.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

/// A server of the legacy dialect reads a part of the nonce as the upper bytes of a length that is
/// too large to allocate. No byte of it equals kReady.
constexpr std::uint32_t kNonce = 0xDDDDDDDD;

/// Reply to CHECK if the keys exist.
constexpr char kReady = 0;

/// Returns the first `bytes` of the reply, or fewer if the connection ends before.
asio::awaitable<std::string> exchange(StoreEndpoint endpoint, std::string request,
                                      std::size_t bytes, Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const auto connection = co_await connect_to(endpoint, deadline);
  if (connection.fd < 0) co_return std::string();
  const auto channel = std::make_shared<MessageChannel>(executor, connection.fd);
  asio::steady_timer limit(executor, Deadline::Clock::now() + deadline.remaining());
  limit.async_wait([channel](boost::system::error_code error) {
    if (!error) channel->close();
  });
  channel->send(request);
  std::string reply;
  while (reply.size() < bytes) {
    const std::string part = co_await channel->receive();
    if (part.empty()) break;
    reply += part;
  }
  co_return reply;
}

}  // namespace

asio::awaitable<bool> has_torchrun(StoreEndpoint endpoint, std::string run_id, Deadline deadline) {
  const std::string roles = "/" + run_id + "/torchelastic/role_info";
  // Keys of its c10d rendezvous and of the ranks that node 0 publishes in all versions.
  const std::string keys[] = {"/torch.rendezvous." + run_id, roles + "0", roles + "/0"};
  for (const auto dialect : {wire::Dialect::modern, wire::Dialect::legacy}) {
    std::string checks;
    std::size_t bytes = std::size(keys);
    if (dialect == wire::Dialect::modern) {
      wire::append_validate(checks);
      wire::append_request(checks, wire::Ping{kNonce}, dialect);
      bytes += sizeof kNonce;
    }
    for (const auto& key : keys) wire::append_request(checks, wire::Check{{key}}, dialect);
    const auto replies = co_await exchange(endpoint, std::move(checks), bytes, deadline);
    if (replies.size() != bytes) continue;
    const bool has_any = replies.find(kReady) != std::string::npos;
    co_return has_any;
  }
  co_return false;
}

}  // namespace ddprun::membership
