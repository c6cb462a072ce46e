#include "rendezvous/membership/coordinator.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "rendezvous/membership/action_queue.hpp"
#include "rendezvous/membership/agent_sessions.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

/// Node id of the agent of this process; connections have higher ids.
constexpr NodeId kLocalNode = 0;

}  // namespace

class Coordinator::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Settings settings, const security::Secret* secret,
       LeadershipTerm term, std::function<void()> clear_store, const Log& log)
      : executor_(std::move(executor)),
        sessions_(executor_, settings, secret, listener(), log),
        coordination_(begin(std::move(settings), term.record)),
        term_(std::move(term)),
        clear_store_(std::move(clear_store)),
        wake_(executor_),
        over_(executor_, Time::max()) {}

  void start() {
    queue_.add({KeepRecord{coordination_.record()}});
    perform();
    plan_wake();
  }

  AgentSessions& sessions() { return sessions_; }

  void open_local(LocalListener listener) {
    local_ = std::make_shared<const LocalListener>(std::move(listener));
  }

  void send_local(const NodeMessage& message) { apply(NodeMessageReceived{kLocalNode, message}); }

  void close_local() {
    if (std::exchange(local_, nullptr)) apply(NodeDisconnected{kLocalNode, "it has left"});
  }

  void resign(const std::string& reason) { apply(HostLeaves{reason}); }

  bool has_nodes() const { return coordination_.has_nodes(); }

  bool is_over() const { return failure_ || (coordination_.is_over() && queue_.is_idle()); }

  static asio::awaitable<void> wait_until_over(std::shared_ptr<Impl> self) {
    if (!self->is_over()) co_await self->over_.async_wait(kAwait);
  }

  const std::exception_ptr& failure() const { return failure_; }

  void stop() {
    is_stopped_ = true;
    wake_.cancel();
    over_.cancel();
    queue_.clear();
    sessions_.close_all();
  }

 private:
  AgentSessions::Listener listener() {
    return {.on_message =
                [this](NodeId node, NodeMessage message) {
                  apply(NodeMessageReceived{node, std::move(message)});
                },
            .lose =
                [this](NodeId node, const std::string& reason) {
                  apply(NodeDisconnected{node, reason});
                },
            .fail = [this](const std::exception_ptr& failure) { fail(failure); }};
  }

  static Coordination begin(Settings settings, const std::optional<RunRecord>& record) {
    const auto now = RunClock::now();
    if (record) return Coordination(std::move(settings), *record, now);
    return Coordination(std::move(settings), now);
  }

  bool is_in_term() const { return !term_.is_held || term_.is_held(); }

  static std::function<void(std::exception_ptr)> fail_with(std::shared_ptr<Impl> self) {
    return [self](const std::exception_ptr& failure) {
      if (failure) self->fail(failure);
    };
  }

  /// Some decisions may not have been performed, so make no more: close all connections and let
  /// waiters rethrow the failure.
  void fail(const std::exception_ptr& failure) {
    failure_ = failure;
    stop();
  }

  void apply(const CoordinatorEvent& event) {
    if (is_stopped_ || !is_in_term()) return;
    try {
      queue_.add(coordination_.apply(event, RunClock::now()));
      perform();
      plan_wake();
    } catch (...) {
      return fail(std::current_exception());
    }
    if (is_over()) over_.cancel();
  }

  void perform() {
    while (const auto action = queue_.next()) {
      std::visit([this](const auto& value) { act(value); }, *action);
    }
  }

  void act(const KeepRecord& record) {
    if (!term_.keep) return queue_.kept();
    asio::co_spawn(executor_, keep(shared_from_this(), record), fail_with(shared_from_this()));
  }

  static asio::awaitable<void> keep(std::shared_ptr<Impl> self, KeepRecord record) {
    auto keeping = self->term_.keep(std::move(record));
    const bool is_kept = co_await std::move(keeping);
    self->queue_.kept();
    // The process may have been stopped while the answer was in transit.
    if (!is_kept || !self->is_in_term()) {
      self->is_stopped_ = true;
      self->queue_.clear();
    }
    self->perform();
    if (self->is_over()) self->over_.cancel();
  }

  void act(const SendToNode& send) {
    if (send.node == kLocalNode) return post_local(send.message);
    sessions_.send(send.node, send.message);
  }

  void act(const CloseConnection& close_connection) {
    if (close_connection.node == kLocalNode) return post_local(std::nullopt);
    sessions_.close_connection(close_connection.node);
  }

  /// Posted, since the agent may be in the middle of a decision.
  void post_local(std::optional<CoordinatorMessage> message) {
    asio::post(executor_, [to = std::weak_ptr(local_), message = std::move(message)] {
      if (const auto listener = to.lock()) (*listener)(message);
    });
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
  std::shared_ptr<const LocalListener> local_;  ///< null: not connected
  AgentSessions sessions_;
  Coordination coordination_;
  const LeadershipTerm term_;
  ActionQueue queue_;
  bool is_stopped_ = false;
  std::exception_ptr failure_;
  std::function<void()> clear_store_;
  RunTimer wake_;
  asio::steady_timer over_;  ///< cancelled when the run is over
};

Coordinator::Coordinator(asio::any_io_executor executor, Settings settings,
                         const security::Secret* secret, LeadershipTerm term,
                         std::function<void()> clear_store, const Log& log)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(settings), secret,
                                   std::move(term), std::move(clear_store), log)) {
  impl_->start();
}

Coordinator::~Coordinator() {
  impl_->stop();
}

void Coordinator::admit(int fd, std::string_view bytes) {
  impl_->sessions().admit(fd, bytes);
}

void Coordinator::resign(const std::string& reason) {
  impl_->resign(reason);
}

void Coordinator::open_local(LocalListener listener) {
  impl_->open_local(std::move(listener));
}

void Coordinator::send_local(const NodeMessage& message) {
  impl_->send_local(message);
}

void Coordinator::close_local() {
  impl_->close_local();
}

bool Coordinator::is_over() const {
  return impl_->is_over();
}

bool Coordinator::has_node_at(const std::string& address) const {
  return impl_->sessions().has_node_at(address);
}

std::vector<std::string> Coordinator::refusals() const {
  return impl_->sessions().refusals();
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
