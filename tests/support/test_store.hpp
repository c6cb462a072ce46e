// A store server on its own thread, for tests with blocking clients.
#pragma once

#include "rendezvous/store/store_server.hpp"
#include <ddprun/store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::test {

class TestStore {
 public:
  /// Listens on a port that the kernel chooses, or on `port`.
  explicit TestStore(StoreLimits limits = {}, std::uint16_t port = 0);
  /// With its own log.
  explicit TestStore(StoreServerOptions options);
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;
  ~TestStore();

  const StoreEndpoint& endpoint() const;

  /// Returns a new client; the test fails if it cannot connect.
  Store connect() const;

  /// Runs `action` on the server's thread and waits for its end.
  void run(const std::function<void(StoreServer&)>& action);

  StoreServerStats stats();

  /// Waits until the server's statistics satisfy `condition`; returns false after 20 s.
  bool wait_until(const std::function<bool(const StoreServerStats&)>& condition);

  /// Log of the server so far.
  std::vector<std::string> warnings();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::test
