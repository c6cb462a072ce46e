#include "rendezvous/membership/coordinator_server.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/foreign_peer.hpp"
#include <ddprun/error.hpp>

#include <bit>
#include <utility>

namespace ddprun::membership {

CoordinatorServer::CoordinatorServer(boost::asio::any_io_executor executor,
                                     const StoreEndpoint& address, Admission admission,
                                     std::uint16_t store_port, Log log)
    : executor_(std::move(executor)), admission_(std::move(admission)), log_(std::move(log)) {
  if (!admission_.other_agents) {
    listen_for_store(address);
  } else if (admission_.secret == nullptr) {
    listen_for_both(address);
  } else {
    listen_apart(address, store_port);
  }
}

StoreServerOptions CoordinatorServer::store_options(const StoreEndpoint& address) {
  return {
      .address = address.host,
      .port = address.port,
      .log = log_,
      .admits_user = admission_.user,
      .admits_address = [this](const std::string& peer) { return coordinator_->has_node_at(peer); },
      .objection_to =
          [](const wire::Request& request) {
            return is_of_torchrun(request) ? std::optional<std::string>(kNoTorchrun) : std::nullopt;
          }};
}

void CoordinatorServer::listen_for_store(const StoreEndpoint& address) {
  auto options = store_options(address);
  if (!admission_.user) options.admits_address = {};
  options.objection_to = {};
  store_ = std::make_unique<StoreServer>(executor_, std::move(options));
}

void CoordinatorServer::listen_for_both(const StoreEndpoint& address) {
  auto options = store_options(address);
  options.other_greeting = kGreeting;
  options.hand_over = [this](int fd, std::string_view bytes) { coordinator_->admit(fd, bytes); };
  store_ = std::make_unique<StoreServer>(executor_, std::move(options));
}

/// The agents' port may already be in use legitimately (by another agent); the store's may not.
void CoordinatorServer::listen_apart(const StoreEndpoint& address, std::uint16_t store_port) {
  agents_ = std::make_unique<Acceptor>(
      executor_, address, [this](int fd) { coordinator_->admit(fd, {}); },
      [this](const std::string& what) { log_error(what); });
  auto options = store_options({address.host, store_port});
  try {
    store_ = std::make_unique<StoreServer>(executor_, std::move(options));
  } catch (const Error& error) {
    throw Error(Errc::usage, "--rdzv_conf=store_port: " + std::string(error.what()));
  }
}

void CoordinatorServer::begin(Settings settings, LeadershipTerm term) {
  settings.store_port = store_port();
  coordinator_ = std::make_unique<Coordinator>(
      executor_, std::move(settings), admission_.secret, std::move(term),
      [this] { store_->new_attempt(); }, log_);
  store_->start();
  if (agents_) agents_->start();
}

/// Logs at powers of two only, which bounds the size of the log.
void CoordinatorServer::log_error(const std::string& what) {
  if (std::has_single_bit(++errors_)) write_log(log_, LogLevel::warn, "rendezvous: " + what);
}

}  // namespace ddprun::membership
