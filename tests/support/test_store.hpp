// A store server on a thread of its own, for tests whose clients block.
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
  /// On a port that the kernel chooses, or on `port`.
  explicit TestStore(StoreLimits limits = {}, std::uint16_t port = 0);
  /// With a log of its own.
  explicit TestStore(StoreServerOptions options);
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;
  ~TestStore();

  const StoreEndpoint& endpoint() const;

  /// A new client; the test fails if it cannot connect.
  Store connect() const;

  /// Does `action` on the server's thread and waits for its end.
  void run(const std::function<void(StoreServer&)>& action);

  StoreServerStats stats();

  /// Waits until the server's figures satisfy `condition`; false after 20 s.
  bool wait_until(const std::function<bool(const StoreServerStats&)>& condition);

  /// What the server has logged so far.
  std::vector<std::string> warnings();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::test
