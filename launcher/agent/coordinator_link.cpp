#include "launcher/agent/coordinator_link.hpp"

#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/placement.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/foreign_peer.hpp"
#include "rendezvous/membership/store_probe.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
using namespace membership;

namespace {

/// A store that lives answers within milliseconds, and the operator waits for the reason.
constexpr auto kQuestionTimeout = std::chrono::seconds(1);

/// A coordinator usually answers within milliseconds, and the operator waits for the reason.
constexpr auto kSilence = std::chrono::seconds(1);

}  // namespace

CoordinatorLink::CoordinatorLink(asio::any_io_executor executor, const LaunchPlan& plan,
                                 const security::Secret* secret, Listener listener)
    : executor_(std::move(executor)),
      plan_(plan),
      secret_(secret),
      listener_(std::move(listener)),
      silence_(executor_) {}

/// What fails for a reason of our own, like a lack of memory, is tried again as after any loss.
void CoordinatorLink::connect(asio::awaitable<Found> finding, Time give_up) {
  asio::co_spawn(executor_, keep(shared_from_this(), std::move(finding), give_up),
                 [self = shared_from_this()](const std::exception_ptr& failure) {
                   if (!failure) return;
                   self->disconnect();
                   self->take(ConnectionLost{failure_text(failure)});
                 });
}

void CoordinatorLink::send(const NodeMessage& message) {
  if (connection_) connection_->send(message);
}

void CoordinatorLink::disconnect() {
  silence_.cancel();
  if (connection_) connection_->close();
  connection_.reset();
}

void CoordinatorLink::close() {
  is_closed_ = true;
  disconnect();
  probes_.reset();
}

std::string CoordinatorLink::peer_address() const {
  return connection_ ? connection_->peer_address() : std::string();
}

asio::awaitable<void> CoordinatorLink::keep(std::shared_ptr<CoordinatorLink> self,
                                            asio::awaitable<Found> finding, Time give_up) {
  const Found found = co_await std::move(finding);
  if (self->is_closed_) co_return;
  if (!found.note.empty()) self->listener_.note(found.note);
  if (found.verdict) co_return self->be_turned_away(found);
  if (!found.endpoint) co_return self->take(ConnectionLost{found.problem});
  self->endpoint_ = *found.endpoint;
  const Deadline::Duration until_then = give_up - Deadline::Clock::now();
  const auto deadline = Deadline::after(std::min(found.connect_timeout, until_then));
  const auto result = co_await connect_to(self->endpoint_, deadline);
  UniqueFd fd(result.fd);
  if (self->is_closed_) co_return;
  if (result.fd < 0) {
    const auto where =
        found.node.empty() ? "" : ", where node " + found.node + " hosts the rendezvous";
    co_return self->take(ConnectionLost{result.problem + where});
  }
  auto connection = std::make_shared<AgentConnection>(self->executor_, fd.release(), self->secret_,
                                                      self->plan_.run_id);
  self->connection_ = connection;
  self->probes_ = std::make_unique<ProbeListener>(self->executor_, connection->local_address());
  self->take(Connected{.office_end = found.office_end,
                       .where = "the rendezvous at " + to_string(self->endpoint_),
                       .probe = self->probes_->address()});
  if (self->connection_ == connection) self->watch_silence(connection);
  co_await self->hear(connection);
}

asio::awaitable<void> CoordinatorLink::hear(Connection connection) {
  while (connection_ == connection) {
    auto message = co_await connection->receive();
    if (connection_ != connection) break;  // it was given up here
    if (!message) {
      auto finding = find_end_reason(connection);
      const std::string reason = co_await std::move(finding);
      if (connection_ != connection) break;
      disconnect();
      take(ConnectionLost{"the rendezvous at " + to_string(endpoint_) + ": " + reason});
      break;
    }
    if (auto* refused = std::get_if<Refused>(&*message)) explain(*refused, plan_.config_outline);
    take(CoordinatorSays{std::move(*message), connection->is_proven()});
  }
}

/// Asks who it was that has closed the connection without a word. A coordinator with a secret would
/// take the question for a torchrun's, so it is asked in open runs only.
asio::awaitable<std::string> CoordinatorLink::find_end_reason(Connection connection) {
  if (!connection->is_silent() || secret_ != nullptr) co_return connection->end_reason();
  auto asking = has_torchrun(endpoint_, plan_.run_id, Deadline::after(kQuestionTimeout));
  const bool is_torchrun = co_await std::move(asking);
  co_return is_torchrun ? std::string("it is a torchrun; ") + kNoTorchrun
                        : connection->end_reason();
}

/// Newer stores of PyTorch keep a connection whose bytes they do not understand. In open runs only,
/// as above.
void CoordinatorLink::watch_silence(const Connection& connection) {
  if (secret_ != nullptr) return;
  silence_.expires_after(kSilence);
  silence_.async_wait([weak = weak_from_this(), connection](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || self->connection_ != connection || !connection->is_silent()) return;
    asio::co_spawn(self->executor_, ask_silent(self, connection), asio::detached);
  });
}

asio::awaitable<void> CoordinatorLink::ask_silent(std::shared_ptr<CoordinatorLink> self,
                                                  Connection connection) {
  auto asking =
      has_torchrun(self->endpoint_, self->plan_.run_id, Deadline::after(kQuestionTimeout));
  const bool is_torchrun = co_await std::move(asking);
  if (!is_torchrun || self->connection_ != connection || !connection->is_silent()) co_return;
  self->disconnect();
  self->take(ConnectionLost{"the rendezvous at " + to_string(self->endpoint_) +
                            ": it is a torchrun; " + kNoTorchrun});
}

void CoordinatorLink::take(const NodeEvent& event) {
  if (!is_closed_) listener_.take(event);
}

void CoordinatorLink::be_turned_away(const Found& found) {
  auto verdict = *found.verdict;
  Refused refused{.reason = verdict.reason, .config = found.config};
  explain(refused, plan_.config_outline);
  verdict.reason = refused.reason;
  take(TurnedAway{verdict});
}

}  // namespace ddprun
