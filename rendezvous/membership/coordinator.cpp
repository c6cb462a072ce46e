#include "rendezvous/membership/coordinator.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/message_channel.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// Far more nodes than a run has: each is a socket and some buffers.
constexpr std::size_t kConnectionsMax = 16'384;

/// An agent says at once who it is.
constexpr auto kJoinTimeout = std::chrono::seconds(10);

}  // namespace

class Coordinator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Settings settings, std::function<void()> clear_store,
       Log log)
      : executor_(std::move(executor)),
        coordination_(std::move(settings), Deadline::Clock::now()),
        clear_store_(std::move(clear_store)),
        log_(std::move(log)),
        wake_(executor_),
        over_(executor_, Time::max()) {}

  void start() { plan_wake(); }

  void admit(int fd, std::string_view bytes) {
    if (sessions_.size() >= kConnectionsMax) {
      ::close(fd);
      return write_log(log_, LogLevel::warn,
                       "rendezvous: refused a node: there are " + std::to_string(sessions_.size()) +
                           " connections");
    }
    const NodeId id = ++last_id_;
    auto session = std::make_shared<Session>(executor_, fd);
    sessions_.emplace(id, session);
    bytes.remove_prefix(std::min(bytes.size(), kGreeting.size()));
    session->join_timer.expires_after(kJoinTimeout);
    session->join_timer.async_wait([weak = std::weak_ptr(session)](auto error) {
      if (auto late = weak.lock(); late && !error) late->channel.close();
    });
    asio::co_spawn(executor_, serve(shared_from_this(), id, session, std::string(bytes)),
                   asio::detached);
  }

  asio::awaitable<void> wait_until_over() {
    if (!coordination_.is_over()) co_await over_.async_wait(kAwait);
  }

  void stop() {
    wake_.cancel();
    for (const auto& [id, session] : std::exchange(sessions_, {})) session->close();
  }

 private:
  struct Session {
    Session(const asio::any_io_executor& executor, int fd)
        : channel(executor, fd), join_timer(executor) {}

    void close() {
      join_timer.cancel();
      channel.close();
    }

    MessageChannel channel;
    MessageReader<NodeMessage> reader;
    asio::steady_timer join_timer;
    bool has_joined = false;
  };

  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, NodeId id,
                                     std::shared_ptr<Session> session, std::string bytes) {
    while (true) {
      session->reader.take(bytes);
      while (auto message = session->reader.next()) self->hear(id, *session, std::move(*message));
      if (session->reader.is_malformed()) {
        write_log(self->log_, LogLevel::warn,
                  "rendezvous: " + session->channel.peer_address() + " " +
                      session->reader.problem() + "; its connection was closed");
        session->close();
      }
      bytes = co_await session->channel.receive();
      if (bytes.empty()) break;
    }
    session->close();
    if (self->sessions_.erase(id) > 0) self->apply(NodeGone{id, session->channel.end_reason()});
  }

  void hear(NodeId id, Session& session, NodeMessage message) {
    const bool is_join = std::holds_alternative<Join>(message);
    // Whoever does not begin by saying who it is, or says it twice, is no agent.
    if (is_join == session.has_joined) return session.close();
    if (is_join) {
      session.has_joined = true;
      session.join_timer.cancel();
    }
    apply(NodeSays{id, std::move(message)});
  }

  void apply(const CoordinatorEvent& event) {
    for (const auto& action : coordination_.apply(event, Deadline::Clock::now())) {
      std::visit([this](const auto& value) { act(value); }, action);
    }
    plan_wake();
    if (coordination_.is_over()) over_.cancel();
  }

  void act(const Tell& tell) {
    const auto session = sessions_.find(tell.node);
    if (session == sessions_.end()) return;
    std::string bytes;
    append_message(bytes, tell.message);
    session->second->channel.send(bytes);
  }

  void act(const HangUp& hang_up) {
    const auto session = sessions_.find(hang_up.node);
    if (session == sessions_.end()) return;
    session->second->close();
    sessions_.erase(session);
  }

  void act(const ClearStore&) { clear_store_(); }

  void plan_wake() {
    const auto when = coordination_.next_wake();
    if (!when) {
      wake_.cancel();
      return;
    }
    wake_.expires_at(*when);
    wake_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (self && !error) self->apply(TimePassed{});
    });
  }

  asio::any_io_executor executor_;
  Coordination coordination_;
  std::function<void()> clear_store_;
  Log log_;
  asio::steady_timer wake_;
  asio::steady_timer over_;  ///< cancelled when the run is over
  std::map<NodeId, std::shared_ptr<Session>> sessions_;
  NodeId last_id_ = 0;
};

Coordinator::Coordinator(asio::any_io_executor executor, Settings settings,
                         std::function<void()> clear_store, Log log)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(settings), std::move(clear_store),
                                   std::move(log))) {
  impl_->start();
}

Coordinator::~Coordinator() {
  impl_->stop();
}

void Coordinator::admit(int fd, std::string_view bytes) {
  impl_->admit(fd, bytes);
}

asio::awaitable<void> Coordinator::wait_until_over() {
  return impl_->wait_until_over();
}

}  // namespace ddprun::membership
