#include "rendezvous/membership/coordinator.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/message_channel.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <bit>
#include <cstdint>
#include <unistd.h>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// Far more nodes than a run has: each is a socket and some buffers.
constexpr std::size_t kConnectionsMax = 16'384;

}  // namespace

class Coordinator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Settings settings, std::function<void()> clear_store,
       Log log)
      : executor_(std::move(executor)),
        introduction_timeout_(settings.introduction_timeout),
        coordination_(std::move(settings), Deadline::Clock::now()),
        clear_store_(std::move(clear_store)),
        log_(std::move(log)),
        wake_(executor_),
        over_(executor_, Time::max()) {}

  void start() { plan_wake(); }

  void admit(int fd, std::string_view bytes) {
    if (sessions_.size() >= kConnectionsMax) {
      ::close(fd);
      return warn(counts_.over_connections,
                  "refused a node: there are " + std::to_string(sessions_.size()) +
                      " connections (at most " + std::to_string(kConnectionsMax) + ")");
    }
    const NodeId id = ++last_id_;
    auto session = std::make_shared<Session>(executor_, fd);
    sessions_.emplace(id, session);
    session->join_timer.expires_after(introduction_timeout_);
    session->join_timer.async_wait(
        [self = weak_from_this(), weak = std::weak_ptr(session)](auto error) {
          const auto owner = self.lock();
          const auto late = weak.lock();
          if (owner && late && !error) owner->give_up(*late);
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
    MessageReader<NodeMessage> reader{kFirstMessageBytesMax};
    asio::steady_timer join_timer;
    std::string opening;  ///< what it has said until its greeting was whole
    bool has_greeted = false;
    bool has_joined = false;
  };

  /// How often each of them has happened.
  struct Counts {
    std::uint64_t over_connections = 0;
    std::uint64_t malformed = 0;
    std::uint64_t silent = 0;
    std::uint64_t other_versions = 0;
  };

  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, NodeId id,
                                     std::shared_ptr<Session> session, std::string bytes) {
    while (true) {
      self->take(id, *session, std::move(bytes));
      bytes = co_await session->channel.receive();
      if (bytes.empty()) break;
    }
    session->close();
    if (self->sessions_.erase(id) > 0) self->apply(NodeGone{id, session->channel.end_reason()});
  }

  void take(NodeId id, Session& session, std::string bytes) {
    if (!session.has_greeted) {
      session.opening.append(bytes);
      const auto greeting = read_greeting(session.opening);
      if (!greeting) return;
      if (greeting->is_malformed) return close_for(session, "did not greet as an agent does");
      if (greeting->version != kProtocolVersion) return refuse(session, greeting->version);
      session.has_greeted = true;
      bytes = std::exchange(session.opening, {}).substr(greeting->bytes);
    }
    session.reader.take(bytes);
    while (auto message = session.reader.next()) {
      hear(id, session, std::move(*message));
      if (!session.channel.is_open()) return;
    }
    if (session.reader.is_malformed()) close_for(session, session.reader.problem());
  }

  void hear(NodeId id, Session& session, NodeMessage message) {
    const bool is_join = std::holds_alternative<Join>(message);
    if (is_join && session.has_joined) return close_for(session, "joined twice");
    if (!is_join && !session.has_joined) return close_for(session, "did not begin by joining");
    if (is_join) {
      session.has_joined = true;
      session.reader.allow(kMessageBytesMax);
      session.join_timer.cancel();
    }
    apply(NodeSays{id, std::move(message)});
  }

  /// Refused has the same form in all versions.
  void refuse(Session& session, std::uint32_t version) {
    const auto reason = objection_to_version(version);
    std::string bytes;
    append_message(bytes, Refused{reason});
    session.channel.send(bytes);
    warn(counts_.other_versions, "refused " + session.channel.peer_address() + ": " + reason);
    session.close();
  }

  void close_for(Session& session, const std::string& why) {
    warn(counts_.malformed,
         session.channel.peer_address() + " " + why + "; its connection was closed");
    session.close();
  }

  void give_up(Session& session) {
    warn(counts_.silent, session.channel.peer_address() + " did not join within " +
                             seconds_text(introduction_timeout_) + "; its connection was closed");
    session.close();
  }

  /// Once for each power of two, so that nobody can fill a disk with them.
  void warn(std::uint64_t& count, const std::string& what) {
    if (!std::has_single_bit(++count)) return;
    const std::string times =
        count == 1 ? "" : " (number " + std::to_string(count) + " of its kind)";
    write_log(log_, LogLevel::warn, "rendezvous: " + what + times);
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
  const std::chrono::milliseconds introduction_timeout_;
  Coordination coordination_;
  std::function<void()> clear_store_;
  Log log_;
  Counts counts_;
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
