#include "rendezvous/membership/agent_connection.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/membership/foreign_peer.hpp"

#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

AgentConnection::AgentConnection(asio::any_io_executor executor, int fd,
                                 const security::Secret* secret, const std::string& run_id)
    : channel_(std::move(executor), fd),
      dialogue_(secret, run_id, random_bytes(security::kDigestBytes)) {}

void AgentConnection::send(const NodeMessage& message) {
  dialogue_.send(message);
  channel_.send(dialogue_.take_outgoing());
}

asio::awaitable<std::optional<CoordinatorMessage>> AgentConnection::receive() {
  while (true) {
    auto message = dialogue_.next();
    channel_.send(dialogue_.take_outgoing());
    if (message) co_return message;
    if (!dialogue_.problem().empty()) break;
    const std::string bytes = co_await channel_.receive();
    if (bytes.empty()) break;
    dialogue_.feed(bytes);
  }
  channel_.close();
  co_return std::nullopt;
}

std::string AgentConnection::end_reason() const {
  if (const auto problem = dialogue_.problem(); !problem.empty()) return "it " + problem;
  const auto& first_bytes = dialogue_.first_bytes();
  if (const auto foreign = describe_foreign(first_bytes); !foreign.empty()) return "it " + foreign;
  if (!first_bytes.empty()) return channel_.end_reason();
  return channel_.end_reason() +
         " before it sent anything: it is another program, such as torchrun, or is ending";
}

}  // namespace ddprun::membership
