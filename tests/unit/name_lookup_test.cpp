#include "rendezvous/store/name_lookup.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace name_lookup_test {

using ddprun::Deadline;
using ddprun::look_up;
using ddprun::look_up_by;
using ddprun::NameLookup;
using namespace std::chrono_literals;

TEST_SUITE("name lookup") {
  TEST_CASE("name lookup: a numeric address is resolved even after the deadline") {
    for (const char* host : {"127.0.0.1", "::1"}) {
      const NameLookup found = look_up({.host = host, .port = 1}, Deadline::after(0s));
      CHECK(found.problem == "");
      CHECK(found.addresses != nullptr);
    }
  }

  TEST_CASE("name lookup: a name is resolved on another thread with or without a deadline") {
    if (!std::filesystem::exists("/etc/hosts")) {
      MESSAGE("this machine has no /etc/hosts, so that even localhost is unknown");
      return;
    }
    for (const auto deadline : {Deadline::after(20s), Deadline::never()}) {
      const NameLookup found = look_up({.host = "localhost", .port = 1}, deadline);
      CHECK(found.problem == "");
      CHECK(found.addresses != nullptr);
    }
  }

  TEST_CASE("name lookup: an unknown name is reported") {
    const NameLookup found = look_up({.host = "no such host", .port = 1}, Deadline::after(20s));
    CHECK(found.problem.find("cannot look up no such host: ") == 0);
    CHECK(found.addresses == nullptr);
  }

  TEST_CASE("name lookup: a hung lookup is abandoned at the deadline") {
    // Destroyed when the abandoned lookup has ended.
    auto alive = std::make_shared<std::promise<void>>();
    const std::weak_ptr<std::promise<void>> watch = alive;
    std::promise<void> release;
    auto released = release.get_future().share();
    const NameLookup found = look_up_by(
        [alive = std::move(alive), released] {
          released.wait();
          return look_up({.host = "127.0.0.1", .port = 1}, Deadline::after(0s));
        },
        Deadline::after(20ms));
    CHECK(found.problem == "no answer to the look-up of its name");
    CHECK_FALSE(watch.expired());
    release.set_value();
    const auto deadline = Deadline::after(20s);
    while (!watch.expired() && !deadline.passed()) std::this_thread::yield();
    CHECK(watch.expired());
  }
}

}  // namespace name_lookup_test
