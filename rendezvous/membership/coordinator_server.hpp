// Coordinator and workers' store of a run on this machine. In an open run they share a port; in one
// with a secret the store has another one. In a run of one node the coordinator has none. The store
// serves the users of the run's workers on this machine and the addresses of the run's nodes:
// PyTorch's clients cannot prove that they know a secret. Runs on the executor's one thread.
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
  /// Listens; connections wait for begin(). `store_port` counts only in a run with a secret; 0: the
  /// kernel chooses. Throws Error if it cannot, Error{Errc::usage} if only the store cannot.
  CoordinatorServer(boost::asio::any_io_executor executor, const StoreEndpoint& address,
                    Admission admission, std::uint16_t store_port, Log log);
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  void begin(Settings settings, LeadershipTerm term);

  /// Of the coordinator.
  std::uint16_t port() const { return agents_ ? agents_->endpoint().port : store_port(); }

  std::uint16_t store_port() const { return store_->endpoint().port; }

  const StoreServer& store() const { return *store_; }

  /// After begin().
  Coordinator& coordinator() { return *coordinator_; }

 private:
  void listen_for_store(const StoreEndpoint& address);
  void listen_for_both(const StoreEndpoint& address);
  void listen_apart(const StoreEndpoint& address, std::uint16_t store_port);
  StoreServerOptions store_options(const StoreEndpoint& address);
  void complain(const std::string& what);

  boost::asio::any_io_executor executor_;
  Admission admission_;
  Log log_;
  std::uint64_t complaints_ = 0;
  std::unique_ptr<Acceptor> agents_;  ///< null unless the run has a secret
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Coordinator> coordinator_;  ///< closes its connections before the store does
};

}  // namespace ddprun::membership
