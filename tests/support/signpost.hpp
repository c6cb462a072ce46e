// A counter in a test's store, for synchronisation between ranks and the test.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <chrono>
#include <string>
#include <thread>

namespace ddprun::test {

/// Counts ranks that have arrived at a position, and lets the test wait for a number of them.
struct Signpost {
  StoreEndpoint store;
  std::string name;

  void reach() const { Store::connect(store, minute()).add(name, 1, minute()); }
  void await(int count) const {
    auto client = Store::connect(store, minute());
    while (client.add(name, 0, minute()) < count) std::this_thread::yield();
  }
  static Deadline minute() { return Deadline::after(std::chrono::seconds(60)); }
};

}  // namespace ddprun::test
