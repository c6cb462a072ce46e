#include "rendezvous/membership/agent_sessions.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/membership/dialogue.hpp"
#include "rendezvous/membership/message_channel.hpp"
#include "rendezvous/membership/newcomers.hpp"
#include "rendezvous/membership/refusals.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <bit>
#include <cstdint>
#include <map>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

/// Maximum connections; each needs a socket and some buffers.
constexpr std::size_t kConnectionsMax = 16'384;

/// Unauthenticated or not yet joined connections beyond `nodes_max`: all nodes may connect at once,
/// and each joins within milliseconds.
constexpr std::size_t kNewcomersMax = 64;

/// Messages of one connection that are handled per turn: about 1 ms.
constexpr int kMessagesPerTurn = 64;

std::size_t pending_max(const Settings& settings) {
  return kNewcomersMax + static_cast<std::size_t>(settings.nodes_max);
}

struct Session {
  Session(const asio::any_io_executor& executor, int fd, const security::Secret* secret)
      : channel(executor, fd),
        dialogue(secret, random_bytes(security::kDigestBytes)),
        timer(executor) {}

  void close() {
    timer.cancel();
    channel.close();
  }

  void send() { channel.send(dialogue.take_outgoing()); }

  MessageChannel channel;
  CoordinatorDialogue dialogue;
  asio::steady_timer timer;  ///< closes the connection unless it joins in time
  bool is_introduced = false;
  bool has_joined = false;
  std::string name;  ///< of the node, once it has joined
};

/// Counts of warnings; refusals are counted by node and cause.
struct Counts {
  std::uint64_t over_connections = 0;
  std::uint64_t pushed_out = 0;
  std::uint64_t malformed = 0;
  std::uint64_t silent = 0;
};

}  // namespace

class AgentSessions::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, const Settings& settings, const security::Secret* secret,
       Listener listener, Log log)
      : executor_(std::move(executor)),
        secret_(secret),
        handshake_timeout_(settings.handshake_timeout),
        introduction_timeout_(settings.introduction_timeout),
        unproven_(pending_max(settings)),
        unjoined_(pending_max(settings)),
        listener_(std::move(listener)),
        log_(std::move(log)) {}

  void admit(int fd, std::string_view bytes) {
    if (is_closed_) {
      ::close(fd);
      return;
    }
    if (sessions_.size() >= kConnectionsMax) {
      ::close(fd);
      return warn(counts_.over_connections,
                  "refused a node: there are " + std::to_string(sessions_.size()) +
                      " connections (at most " + std::to_string(kConnectionsMax) + ")");
    }
    const NodeId id = ++last_id_;
    auto session = std::make_shared<Session>(executor_, fd, secret_);
    sessions_.emplace(id, session);
    expect(id, unproven_, *session, handshake_timeout_);
    asio::co_spawn(executor_, serve(shared_from_this(), id, session, std::string(bytes)),
                   [self = shared_from_this()](const std::exception_ptr& failure) {
                     if (failure && !self->is_closed_) self->listener_.fail(failure);
                   });
  }

  void send(NodeId id, const CoordinatorMessage& message) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) return;
    if (const auto* refused = std::get_if<Refused>(&message)) {
      log_refusal(*session->second, refused->reason);
    }
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      refusals_.forget(session->second->name);
      if (!welcome->warning.empty()) write_log(log_, LogLevel::warn, welcome->warning);
    }
    session->second->dialogue.send(message);
    session->second->send();
  }

  void close_connection(NodeId id) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) return;
    session->second->close();
    forget(id);
  }

  void close_all() {
    is_closed_ = true;
    nodes_at_.clear();
    for (const auto& [id, session] : std::exchange(sessions_, {})) session->close();
  }

  bool has_node_at(const std::string& address) const { return nodes_at_.contains(address); }

  std::vector<std::string> refusals() const { return refusals_.summary(); }

 private:
  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, NodeId id,
                                     std::shared_ptr<Session> session, std::string bytes) {
    while (true) {
      while (self->take(id, *session, std::exchange(bytes, {}))) {
        co_await asio::post(self->executor_, kAwait);
      }
      bytes = co_await session->channel.receive();
      if (bytes.empty()) break;
    }
    session->close();
    if (self->forget(id)) self->listener_.lose(id, session->channel.end_reason());
  }

  /// Returns true if more messages may have been received than one turn handles.
  bool take(NodeId id, Session& session, const std::string& bytes) {
    if (is_closed_ || !session.channel.is_open()) return false;
    auto& dialogue = session.dialogue;
    dialogue.feed(bytes);
    session.send();
    if (dialogue.is_introduced() && !std::exchange(session.is_introduced, true)) {
      unproven_.remove(id);
      expect(id, unjoined_, session, introduction_timeout_);
    }
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      auto message = dialogue.next();
      if (!message) {
        end_if_refused(session);
        return false;
      }
      on_message(id, session, std::move(*message));
      if (!session.channel.is_open()) return false;
    }
    return true;
  }

  /// Closes a connection that was refused or has broken the protocol.
  void end_if_refused(Session& session) {
    const auto& dialogue = session.dialogue;
    if (!dialogue.refusal().empty()) {
      log_refusal(session, dialogue.refusal());
      session.close();
    } else if (!dialogue.problem().empty()) {
      close_for(session, counts_.malformed, dialogue.problem());
    }
  }

  void on_message(NodeId id, Session& session, NodeMessage message) {
    const bool is_join = std::holds_alternative<Join>(message);
    if (is_join == session.has_joined) {
      return close_for(session, counts_.malformed,
                       is_join ? "joined twice" : "did not begin by joining");
    }
    if (is_join) {
      session.has_joined = true;
      session.name = std::get<Join>(message).name;
      session.dialogue.allow_long_messages();
      session.timer.cancel();
      unjoined_.remove(id);
      ++nodes_at_[session.channel.peer_address()];
    }
    listener_.on_message(id, std::move(message));
  }

  /// Limits the time until the connection's next step and the number of connections that wait for
  /// it.
  void expect(NodeId id, Newcomers& newcomers, Session& session,
              std::chrono::milliseconds timeout) {
    session.timer.expires_after(timeout);
    session.timer.async_wait([weak = weak_from_this(), id](boost::system::error_code error) {
      const auto self = weak.lock();
      if (self && !error) self->give_up(id);
    });
    const auto oldest = newcomers.add(id);
    if (oldest) push_out(*oldest);
  }

  void push_out(NodeId id) {
    const auto& session = sessions_.at(id);
    warn(counts_.pushed_out, "too many connections that have not joined; the oldest, of " +
                                 session->channel.peer_address() + ", was closed");
    session->close();
  }

  void give_up(NodeId id) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    Session& session = *found->second;
    const auto timeout = session.is_introduced ? introduction_timeout_ : handshake_timeout_;
    const std::string what = session.is_introduced ? "join"
                             : secret_ == nullptr  ? "greet"
                                                   : "prove that it knows this run's secret";
    close_for(session, counts_.silent, "did not " + what + " within " + seconds_text(timeout));
  }

  void close_for(Session& session, std::uint64_t& count, const std::string& why) {
    warn(count, session.channel.peer_address() + " " + why + "; its connection was closed");
    session.close();
  }

  /// Returns false if the connection no longer exists.
  bool forget(NodeId id) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return false;
    unproven_.remove(id);
    unjoined_.remove(id);
    const auto address = nodes_at_.find(found->second->channel.peer_address());
    if (found->second->has_joined && --address->second == 0) nodes_at_.erase(address);
    sessions_.erase(found);
    return true;
  }

  void log_refusal(const Session& session, const std::string& reason) {
    const auto line = refusals_.add(session.name, session.channel.peer_address(), reason);
    if (line) write_log(log_, LogLevel::warn, "rendezvous: " + *line);
  }

  /// Logs at powers of two only, which bounds the size of the log.
  void warn(std::uint64_t& count, const std::string& what) {
    if (!std::has_single_bit(++count)) return;
    const std::string times = count == 1 ? "" : " (" + std::to_string(count) + " times so far)";
    write_log(log_, LogLevel::warn, "rendezvous: " + what + times);
  }

  asio::any_io_executor executor_;
  const security::Secret* secret_;  ///< null: the run is open
  const std::chrono::milliseconds handshake_timeout_;
  const std::chrono::milliseconds introduction_timeout_;
  Newcomers unproven_;
  Newcomers unjoined_;
  Listener listener_;
  Log log_;
  Counts counts_;
  Refusals refusals_;
  std::map<NodeId, std::shared_ptr<Session>> sessions_;
  std::map<std::string, int> nodes_at_;  ///< number of joined nodes by address
  NodeId last_id_ = 0;
  bool is_closed_ = false;
};

AgentSessions::AgentSessions(asio::any_io_executor executor, const Settings& settings,
                             const security::Secret* secret, Listener listener, Log log)
    : impl_(std::make_shared<Impl>(std::move(executor), settings, secret, std::move(listener),
                                   std::move(log))) {}

AgentSessions::~AgentSessions() {
  close_all();
}

void AgentSessions::admit(int fd, std::string_view bytes) {
  impl_->admit(fd, bytes);
}

void AgentSessions::send(NodeId node, const CoordinatorMessage& message) {
  impl_->send(node, message);
}

void AgentSessions::close_connection(NodeId node) {
  impl_->close_connection(node);
}

void AgentSessions::close_all() {
  impl_->close_all();
}

std::vector<std::string> AgentSessions::refusals() const {
  return impl_->refusals();
}

bool AgentSessions::has_node_at(const std::string& address) const {
  return impl_->has_node_at(address);
}

}  // namespace ddprun::membership
