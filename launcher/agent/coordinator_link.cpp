#include "launcher/agent/coordinator_link.hpp"

#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/placement.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/foreign_peer.hpp"
#include "rendezvous/membership/store_probe.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
using namespace membership;

namespace {

/// A store responds within milliseconds, and the operator waits for the reason.
constexpr auto kProbeTimeout = std::chrono::seconds(1);

/// Delay before the first probe of a silent peer; doubled for each further one. A coordinator
/// usually responds within milliseconds.
constexpr std::chrono::milliseconds kProbeInterval = std::chrono::seconds(1);

std::string torchrun_text() {
  return std::string("it is a torchrun; ") + kNoTorchrun;
}

}  // namespace

CoordinatorLink::CoordinatorLink(asio::any_io_executor executor, const LaunchPlan& plan,
                                 const security::Secret* secret, Listener listener)
    : executor_(std::move(executor)),
      plan_(plan),
      secret_(secret),
      listener_(std::move(listener)),
      probe_timer_(executor_) {}

void CoordinatorLink::connect(asio::awaitable<Found> finding, Time give_up) {
  asio::co_spawn(executor_, run_connection(shared_from_this(), std::move(finding), give_up),
                 [self = shared_from_this()](const std::exception_ptr& failure) {
                   if (failure) self->on_connection_lost(failure_text(failure));
                 });
}

void CoordinatorLink::send(const NodeMessage& message) {
  if (local_ != nullptr) return local_->send_local(message);
  if (connection_) connection_->send(message);
}

void CoordinatorLink::disconnect() {
  probe_timer_.cancel();
  if (auto* local = std::exchange(local_, nullptr)) local->close_local();
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

asio::awaitable<void> CoordinatorLink::run_connection(std::shared_ptr<CoordinatorLink> self,
                                                      asio::awaitable<Found> finding,
                                                      Time give_up) {
  const Found found = co_await std::move(finding);
  if (self->is_closed_) co_return;
  if (!found.note.empty()) self->listener_.note(found.note);
  if (found.outcome) co_return self->reject_join(found);
  if (found.local != nullptr) co_return self->join_local(*found.local);
  if (!found.endpoint) co_return self->take(ConnectionLost{found.problem});
  self->endpoint_ = *found.endpoint;
  const Deadline::Duration until_then = give_up - RunClock::now();
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
  self->take(Connected{.term_end = found.term_end,
                       .where = "the rendezvous at " + to_string(self->endpoint_),
                       .probe = self->probes_->address()});
  if (self->connection_ == connection) self->start_probes(connection);
  co_await self->receive_messages(connection);
}

void CoordinatorLink::join_local(Coordinator& coordinator) {
  local_ = &coordinator;
  coordinator.open_local([this](const std::optional<CoordinatorMessage>& message) {
    if (message) return take(MessageReceived{*message});
    on_connection_lost("the coordinator has ended the membership");
  });
  take(Connected{});
}

asio::awaitable<void> CoordinatorLink::receive_messages(Connection connection) {
  while (connection_ == connection) {
    auto message = co_await connection->receive();
    if (connection_ != connection) break;  // disconnect() was called
    if (!message) {
      auto finding = find_end_reason(connection);
      const std::string reason = co_await std::move(finding);
      if (connection_ != connection) break;
      on_connection_lost("the rendezvous at " + to_string(endpoint_) + ": " + reason);
      break;
    }
    if (auto* refused = std::get_if<Refused>(&*message))
      explain(*refused, plan_.options.from_config.outline);
    take(MessageReceived{std::move(*message), connection->is_proven()});
  }
}

/// Probes a peer that closed the connection without sending anything. Open runs only: a coordinator
/// with a secret would treat the probe as a torchrun client.
asio::awaitable<std::string> CoordinatorLink::find_end_reason(Connection connection) {
  if (!connection->is_silent() || secret_ != nullptr) co_return connection->end_reason();
  auto probe = has_torchrun(endpoint_, plan_.run_id, Deadline::after(kProbeTimeout));
  const bool is_torchrun = co_await std::move(probe);
  co_return is_torchrun ? torchrun_text() : connection->end_reason();
}

/// Recent PyTorch stores keep a connection open after bytes that they cannot parse. Open runs only,
/// as above.
void CoordinatorLink::start_probes(const Connection& connection) {
  if (secret_ != nullptr) return;
  asio::co_spawn(executor_, probe_silent(shared_from_this(), connection),
                 [self = shared_from_this(), connection](const std::exception_ptr& failure) {
                   if (failure && self->connection_ == connection)
                     self->on_connection_lost(failure_text(failure));
                 });
}

/// Repeats until the peer sends something: a torchrun that starts at the same time may write its
/// keys later.
asio::awaitable<void> CoordinatorLink::probe_silent(std::shared_ptr<CoordinatorLink> self,
                                                    Connection connection) {
  const auto is_silent = [&] { return self->connection_ == connection && connection->is_silent(); };
  for (auto interval = kProbeInterval; is_silent(); interval *= 2) {
    self->probe_timer_.expires_after(interval);
    boost::system::error_code ignored;
    co_await self->probe_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (!is_silent()) break;
    auto probe = has_torchrun(self->endpoint_, self->plan_.run_id, Deadline::after(kProbeTimeout));
    const bool is_torchrun = co_await std::move(probe);
    if (is_torchrun && is_silent())
      self->on_connection_lost("the rendezvous at " + to_string(self->endpoint_) + ": " +
                               torchrun_text());
  }
}

/// The node reconnects, also after a failure of this process such as exhausted memory.
void CoordinatorLink::on_connection_lost(const std::string& reason) {
  disconnect();
  take(ConnectionLost{reason});
}

void CoordinatorLink::take(const NodeEvent& event) {
  if (!is_closed_) listener_.take(event);
}

void CoordinatorLink::reject_join(const Found& found) {
  auto outcome = *found.outcome;
  Refused refused{.reason = outcome.reason, .config = found.config};
  explain(refused, plan_.options.from_config.outline);
  outcome.reason = refused.reason;
  take(JoinRejected{outcome});
}

}  // namespace ddprun
