// Coordinator and store of a run at one port of this machine. Runs on the executor's one thread.
#pragma once

#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/store/store_server.hpp"

#include <memory>

namespace ddprun::membership {

class Seat {
 public:
  /// Listens; who connects waits for begin(). Throws Error if it cannot.
  Seat(boost::asio::any_io_executor executor, const StoreEndpoint& address, Log log);
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// `secret` as for the coordinator.
  void begin(Settings settings, const security::Secret* secret, Office office);

  std::uint16_t port() const { return store_->endpoint().port; }

  /// After begin().
  Coordinator& coordinator() { return *coordinator_; }

 private:
  boost::asio::any_io_executor executor_;
  Log log_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Coordinator> coordinator_;  ///< closes its connections before the store does
};

}  // namespace ddprun::membership
