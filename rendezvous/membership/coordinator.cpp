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
#include <deque>
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
  Impl(asio::any_io_executor executor, Settings settings, Office office,
       std::function<void()> clear_store, Log log)
      : executor_(std::move(executor)),
        introduction_timeout_(settings.introduction_timeout),
        coordination_(begin(std::move(settings), office.record)),
        office_(std::move(office)),
        clear_store_(std::move(clear_store)),
        log_(std::move(log)),
        wake_(executor_),
        over_(executor_, Time::max()) {}

  void start() {
    perform(KeepRecord{coordination_.record()});
    plan_wake();
  }

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

  void resign(const std::string& reason) { apply(HostLeaves{reason}); }

  bool has_nodes() const { return coordination_.has_nodes(); }

  asio::awaitable<void> wait_until_over() {
    if (!is_over()) co_await over_.async_wait(kAwait);
  }

  void stop() {
    is_stopped_ = true;
    wake_.cancel();
    over_.cancel();
    delayed_.clear();
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

  static Coordination begin(Settings settings, const std::optional<RunRecord>& record) {
    const auto now = Deadline::Clock::now();
    if (record) return Coordination(std::move(settings), *record, now);
    return Coordination(std::move(settings), now);
  }

  bool is_over() const { return coordination_.is_over() && !is_keeping_ && delayed_.empty(); }

  void apply(const CoordinatorEvent& event) {
    if (is_stopped_ || (office_.is_held && !office_.is_held())) return;
    for (auto& action : coordination_.apply(event, Deadline::Clock::now())) {
      perform(std::move(action));
    }
    plan_wake();
    if (is_over()) over_.cancel();
  }

  /// While a record is being written down what follows waits, in its order; but nodes whose leases
  /// are renewed need not. A connection adds a few actions at most, so the bound of those is that
  /// of what waits.
  void perform(CoordinatorAction action) {
    const auto* tell = std::get_if<Tell>(&action);
    const bool can_wait =
        tell == nullptr || !std::holds_alternative<HeartbeatAnswer>(tell->message);
    if (is_keeping_ && can_wait) {
      delayed_.push_back(std::move(action));
    } else {
      std::visit([this](const auto& value) { act(value); }, action);
    }
  }

  void act(const KeepRecord& record) {
    if (!office_.keep) return;
    is_keeping_ = true;
    asio::co_spawn(executor_, keep(shared_from_this(), record), asio::detached);
  }

  static asio::awaitable<void> keep(std::shared_ptr<Impl> self, KeepRecord record) {
    auto keeping = self->office_.keep(std::move(record));
    const bool is_kept = co_await std::move(keeping);
    self->is_keeping_ = false;
    if (!is_kept) {
      self->is_stopped_ = true;
      self->delayed_.clear();
    }
    while (!self->delayed_.empty() && !self->is_keeping_) {
      const auto action = std::move(self->delayed_.front());
      self->delayed_.pop_front();
      self->perform(action);
    }
    if (self->is_over()) self->over_.cancel();
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
  const Office office_;
  bool is_keeping_ = false;  ///< a record is being written down
  bool is_stopped_ = false;
  std::deque<CoordinatorAction> delayed_;
  std::function<void()> clear_store_;
  Log log_;
  Counts counts_;
  asio::steady_timer wake_;
  asio::steady_timer over_;  ///< cancelled when the run is over
  std::map<NodeId, std::shared_ptr<Session>> sessions_;
  NodeId last_id_ = 0;
};

Coordinator::Coordinator(asio::any_io_executor executor, Settings settings, Office office,
                         std::function<void()> clear_store, Log log)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(settings), std::move(office),
                                   std::move(clear_store), std::move(log))) {
  impl_->start();
}

Coordinator::~Coordinator() {
  impl_->stop();
}

void Coordinator::admit(int fd, std::string_view bytes) {
  impl_->admit(fd, bytes);
}

void Coordinator::resign(const std::string& reason) {
  impl_->resign(reason);
}

bool Coordinator::has_nodes() const {
  return impl_->has_nodes();
}

asio::awaitable<void> Coordinator::wait_until_over() {
  return impl_->wait_until_over();
}

}  // namespace ddprun::membership
