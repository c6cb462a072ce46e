// Serves a run's coordinator and worker store. They share a port in an open run and have separate
// ports in a run with a secret; in a single-node run the coordinator has no port. PyTorch's store
// clients cannot authenticate, so the store accepts the workers' users on this machine and the
// addresses of the run's nodes. Runs on the executor's single thread.
#pragma once

#include "rendezvous/membership/admission.hpp"
#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/store/acceptor.hpp"
#include "rendezvous/store/store_server.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::membership {

class CoordinatorServer {
 public:
  /// Listens; connections are served after begin(). `store_port` is used only in a run with a
  /// secret; 0: the kernel chooses. Throws Error if it cannot listen, and Error{Errc::usage} if
  /// only the store cannot.
  CoordinatorServer(boost::asio::any_io_executor executor, const StoreEndpoint& address,
                    Admission admission, std::uint16_t store_port, Log log);
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  void begin(Settings settings, LeadershipTerm term);

  /// Returns the port of the coordinator.
  std::uint16_t port() const { return agents_ ? agents_->endpoint().port : store_port(); }

  std::uint16_t store_port() const { return store_->endpoint().port; }

  const StoreServer& store() const { return *store_; }

  /// REQUIRES: begin() was called.
  Coordinator& coordinator() { return *coordinator_; }

 private:
  void listen_for_store(const StoreEndpoint& address);
  void listen_for_both(const StoreEndpoint& address);
  void listen_apart(const StoreEndpoint& address, std::uint16_t store_port);
  StoreServerOptions store_options(const StoreEndpoint& address);
  void log_error(const std::string& what);

  boost::asio::any_io_executor executor_;
  Admission admission_;
  Log log_;
  std::uint64_t errors_ = 0;
  std::unique_ptr<Acceptor> agents_;  ///< null unless the run has a secret
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Coordinator> coordinator_;  ///< closes its connections before the store does
};

}  // namespace ddprun::membership
