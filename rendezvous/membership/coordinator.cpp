#include "rendezvous/membership/coordinator.hpp"

#include "rendezvous/membership/dialogue.hpp"
#include "rendezvous/membership/message_channel.hpp"
#include "rendezvous/membership/newcomers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <bit>
#include <cstdint>
#include <deque>
#include <exception>
#include <unistd.h>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// Far more nodes than a run has: each is a socket and some buffers.
constexpr std::size_t kConnectionsMax = 16'384;

/// Strangers, and nodes that have not joined, beyond as many as the run may have nodes: those may
/// all come at once, each is through within milliseconds, and others have no business here.
constexpr std::size_t kNewcomersMax = 64;

std::size_t newcomers_max(const Settings& settings) {
  return kNewcomersMax + static_cast<std::size_t>(settings.nodes_max);
}

}  // namespace

class Coordinator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Settings settings, const security::Secret* secret,
       Office office, std::function<void()> clear_store, Log log)
      : executor_(std::move(executor)),
        secret_(secret),
        handshake_timeout_(settings.handshake_timeout),
        introduction_timeout_(settings.introduction_timeout),
        strangers_(newcomers_max(settings)),
        unjoined_(newcomers_max(settings)),
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
    if (is_stopped_) {
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
    expect(id, strangers_, *session, handshake_timeout_);
    asio::co_spawn(executor_, serve(shared_from_this(), id, session, std::string(bytes)),
                   fail_with(shared_from_this()));
  }

  void resign(const std::string& reason) { apply(HostLeaves{reason}); }

  bool has_nodes() const { return coordination_.has_nodes(); }

  static asio::awaitable<void> wait_until_over(std::shared_ptr<Impl> self) {
    if (!self->is_over() && !self->failure_) co_await self->over_.async_wait(kAwait);
  }

  const std::exception_ptr& failure() const { return failure_; }

  void stop() {
    is_stopped_ = true;
    wake_.cancel();
    over_.cancel();
    delayed_.clear();
    for (const auto& [id, session] : std::exchange(sessions_, {})) session->close();
  }

 private:
  struct Session {
    Session(const asio::any_io_executor& executor, int fd, const security::Secret* secret)
        : channel(executor, fd),
          dialogue(secret, security::random_bytes(security::kDigestBytes)),
          timer(executor) {}

    void close() {
      timer.cancel();
      channel.close();
    }

    MessageChannel channel;
    CoordinatorDialogue dialogue;
    asio::steady_timer timer;  ///< ends what has not joined in time
    bool is_introduced = false;
    bool has_joined = false;
  };

  /// How often each of them has happened.
  struct Counts {
    std::uint64_t over_connections = 0;
    std::uint64_t pushed_out = 0;
    std::uint64_t malformed = 0;
    std::uint64_t silent = 0;
    std::uint64_t refused = 0;
  };

  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, NodeId id,
                                     std::shared_ptr<Session> session, std::string bytes) {
    while (true) {
      self->take(id, *session, std::move(bytes));
      bytes = co_await session->channel.receive();
      if (bytes.empty()) break;
    }
    session->close();
    self->forget_newcomer(id);
    if (self->sessions_.erase(id) > 0) self->apply(NodeGone{id, session->channel.end_reason()});
  }

  void take(NodeId id, Session& session, const std::string& bytes) {
    auto& dialogue = session.dialogue;
    dialogue.take(bytes);
    session.channel.send(dialogue.take_outgoing());
    if (dialogue.is_introduced() && !std::exchange(session.is_introduced, true)) {
      strangers_.remove(id);
      expect(id, unjoined_, session, introduction_timeout_);
    }
    while (auto message = dialogue.next()) {
      hear(id, session, std::move(*message));
      if (!session.channel.is_open()) return;
    }
    if (!dialogue.refusal().empty()) {
      warn(counts_.refused,
           "refused " + session.channel.peer_address() + ": " + dialogue.refusal());
      session.close();
    } else if (!dialogue.problem().empty()) {
      close_for(session, dialogue.problem());
    }
  }

  void hear(NodeId id, Session& session, NodeMessage message) {
    const bool is_join = std::holds_alternative<Join>(message);
    if (is_join && session.has_joined) return close_for(session, "joined twice");
    if (!is_join && !session.has_joined) return close_for(session, "did not begin by joining");
    if (is_join) {
      session.has_joined = true;
      session.dialogue.allow_long_messages();
      session.timer.cancel();
      unjoined_.remove(id);
    }
    apply(NodeSays{id, std::move(message)});
  }

  // Connections that have still to say who they are.

  /// The next step of the connection must follow within this time.
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

  void forget_newcomer(NodeId id) {
    strangers_.remove(id);
    unjoined_.remove(id);
  }

  void push_out(NodeId id) {
    const auto session = sessions_.at(id);
    warn(counts_.pushed_out, "too many connections that have not joined; the oldest, of " +
                                 session->channel.peer_address() + ", was closed");
    session->close();
  }

  void give_up(NodeId id) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end()) return;
    const bool is_introduced = session->second->is_introduced;
    const auto timeout = is_introduced ? introduction_timeout_ : handshake_timeout_;
    const std::string what = is_introduced        ? " did not join within "
                             : secret_ != nullptr ? " did not prove that it knows this run's "
                                                    "secret within "
                                                  : " did not greet within ";
    warn(counts_.silent, session->second->channel.peer_address() + what + seconds_text(timeout) +
                             "; its connection was closed");
    session->second->close();
  }

  void close_for(Session& session, const std::string& why) {
    warn(counts_.malformed,
         session.channel.peer_address() + " " + why + "; its connection was closed");
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

  static std::function<void(std::exception_ptr)> fail_with(std::shared_ptr<Impl> self) {
    return [self](const std::exception_ptr& failure) {
      if (failure) self->fail(failure);
    };
  }

  /// Nobody knows what has been decided and not been done, so nothing is decided any more: the
  /// nodes lose their connections, and whoever waits for the end looks at the cause.
  void fail(const std::exception_ptr& failure) {
    failure_ = failure;
    stop();
  }

  void apply(const CoordinatorEvent& event) {
    if (is_stopped_ || (office_.is_held && !office_.is_held())) return;
    try {
      for (auto& action : coordination_.apply(event, Deadline::Clock::now())) {
        perform(std::move(action));
      }
      plan_wake();
    } catch (...) {
      return fail(std::current_exception());
    }
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
    asio::co_spawn(executor_, keep(shared_from_this(), record), fail_with(shared_from_this()));
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
    session->second->dialogue.say(tell.message);
    session->second->channel.send(session->second->dialogue.take_outgoing());
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
  const security::Secret* secret_;  ///< null: the run is open
  const std::chrono::milliseconds handshake_timeout_;
  const std::chrono::milliseconds introduction_timeout_;
  Newcomers strangers_;
  Newcomers unjoined_;
  Coordination coordination_;
  const Office office_;
  bool is_keeping_ = false;  ///< a record is being written down
  bool is_stopped_ = false;
  std::exception_ptr failure_;
  std::deque<CoordinatorAction> delayed_;
  std::function<void()> clear_store_;
  Log log_;
  Counts counts_;
  asio::steady_timer wake_;
  asio::steady_timer over_;  ///< cancelled when the run is over
  std::map<NodeId, std::shared_ptr<Session>> sessions_;
  NodeId last_id_ = 0;
};

Coordinator::Coordinator(asio::any_io_executor executor, Settings settings,
                         const security::Secret* secret, Office office,
                         std::function<void()> clear_store, Log log)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(settings), secret,
                                   std::move(office), std::move(clear_store), std::move(log))) {
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

std::exception_ptr Coordinator::failure() const {
  return impl_->failure();
}

asio::awaitable<void> Coordinator::wait_until_over() {
  return Impl::wait_until_over(impl_);
}

}  // namespace ddprun::membership
