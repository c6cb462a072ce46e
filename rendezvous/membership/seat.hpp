// Coordinator and workers' store of a run on this machine. In an open run they share a port; in one
// with a secret the store has another one, which serves the addresses of the run's nodes alone:
// PyTorch's clients cannot prove what they know. Runs on the executor's one thread.
#pragma once

#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/security/secret.hpp"
#include "rendezvous/store/acceptor.hpp"
#include "rendezvous/store/store_server.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::membership {

class Seat {
 public:
  /// Listens; who connects waits for begin(). `secret` is null in an open run, else it outlives
  /// this; `store_port` counts with it alone, 0: the kernel chooses. Throws Error if it cannot,
  /// Error{Errc::usage} if only the store cannot.
  Seat(boost::asio::any_io_executor executor, const StoreEndpoint& address,
       const security::Secret* secret, std::uint16_t store_port, Log log);
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  void begin(Settings settings, Office office);

  /// Of the coordinator.
  std::uint16_t port() const { return agents_ ? agents_->endpoint().port : store_port(); }

  std::uint16_t store_port() const { return store_->endpoint().port; }

  /// After begin().
  Coordinator& coordinator() { return *coordinator_; }

 private:
  void listen_for_both(const StoreEndpoint& address);
  void listen_apart(const StoreEndpoint& address, std::uint16_t store_port);
  void complain(const std::string& what);

  boost::asio::any_io_executor executor_;
  const security::Secret* secret_;
  Log log_;
  std::uint64_t complaints_ = 0;
  std::unique_ptr<Acceptor> agents_;  ///< null in an open run
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Coordinator> coordinator_;  ///< closes its connections before the store does
};

}  // namespace ddprun::membership
