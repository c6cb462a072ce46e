#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/store/client_socket.hpp"
#include "rendezvous/store/name_lookup.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace store_client_test {

using ddprun::Deadline;
using ddprun::Errc;
using ddprun::Error;
using ddprun::Store;
using ddprun::UniqueFd;
using ddprun::test::TestStore;
using namespace std::chrono_literals;

namespace {

Deadline soon() {
  return Deadline::after(20s);
}

/// Returns the error of `action`; the test fails without one.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return {Errc::internal, ""};
}

bool contains(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

/// Accepts no further connection: its queue has room for one, which it has.
class FullListener {
 public:
  FullListener() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* const generic = reinterpret_cast<sockaddr*>(&address_);
    REQUIRE(::bind(listener_.get(), generic, length) == 0);
    REQUIRE(::listen(listener_.get(), 0) == 0);
    REQUIRE(::getsockname(listener_.get(), generic, &length) == 0);
    REQUIRE(::connect(first_.get(), generic, length) == 0);
  }

  addrinfo before(const addrinfo* next) {
    addrinfo info{};
    info.ai_family = AF_INET;
    info.ai_addr = reinterpret_cast<sockaddr*>(&address_);
    info.ai_addrlen = sizeof address_;
    info.ai_next = const_cast<addrinfo*>(next);
    return info;
  }

 private:
  static UniqueFd new_socket() {
    return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }

  UniqueFd listener_ = new_socket();
  UniqueFd first_ = new_socket();
  sockaddr_in address_{};
};

}  // namespace

TEST_SUITE("store client") {
  TEST_CASE("store client: an address that does not respond leaves time for the others") {
    TestStore server;
    const auto found = ddprun::look_up(server.endpoint(), soon());
    FullListener full;
    const auto addresses = full.before(found.addresses.get());
    ddprun::ClientSocket socket;
    const auto deadline = Deadline::after(2s);
    CHECK(socket.connect(&addresses, deadline) == "");
    CHECK_FALSE(deadline.passed());
  }

  TEST_CASE("store client: each operation behaves like documented") {
    TestStore server;
    Store store = server.connect();
    const std::vector<std::string> both = {"a", "b"};

    store.set("a", "1", soon());
    CHECK(store.get("a", soon()) == "1");
    CHECK(store.try_get("b", soon()) == std::nullopt);
    CHECK_FALSE(store.check(both, soon()));
    CHECK(store.compare_set("b", "", "new", soon()) == "new");
    CHECK(store.compare_set("b", "old", "newer", soon()) == "new");
    CHECK(store.check(both, soon()));
    store.wait(both, soon());
    CHECK(store.add("n", 5, soon()) == 5);
    CHECK(store.add("n", -7, soon()) == -2);
    CHECK(store.get("n", soon()) == "-2");
    store.append("b", "!", soon());
    CHECK(store.multi_get(both, soon()) == std::vector<std::string>{"1", "new!"});
    store.multi_set(both, std::vector<std::string>{"", "2"}, soon());
    CHECK(store.try_get("a", soon()) == "");
    CHECK(store.number_of_keys(soon()) == 3);
    CHECK(store.erase("n", soon()));
    CHECK_FALSE(store.erase("n", soon()));
    auto keys = store.list_keys(soon());
    std::sort(keys.begin(), keys.end());
    CHECK(keys == both);
    store.queue_push("q", "first", soon());
    store.queue_push("q", "second", soon());
    CHECK(store.queue_length("q", soon()) == 2);
    CHECK(store.queue_pop("q", soon()) == "first");
    CHECK(store.queue_pop("q", soon()) == "second");
    CHECK(store.queue_length("q", soon()) == 0);
    store.barrier("alone", 1, soon());
  }

  TEST_CASE("store client: get() waits until another client sets the key") {
    TestStore server;
    Store waiting = server.connect();
    std::string value;
    std::thread thread([&] { value = waiting.get("late", soon()); });
    CHECK(server.wait_until([](const auto& stats) { return stats.waits == 1; }));
    server.connect().set("late", "here", soon());
    thread.join();
    CHECK(value == "here");
  }

  TEST_CASE("store client: a client stays usable after wait() times out") {
    TestStore server;
    Store store = server.connect();
    const auto error = error_of([&] {
      store.wait(std::vector<std::string>{"never", "ever"}, Deadline::after(10ms));
    });
    CHECK(error.code() == Errc::timeout);
    CHECK(contains(error, "store at 127.0.0.1:" + std::to_string(server.endpoint().port)));
    CHECK(contains(error, "wait for never, ever: not there after "));
    CHECK(contains(error, " s (0.0 s allowed)"));
    CHECK(server.stats().waits == 0);
    store.set("never", "now", soon());
    CHECK(store.get("never", soon()) == "now");
  }

  TEST_CASE("store client: binary values up to the size limit are returned unchanged") {
    TestStore server;
    Store store = server.connect();
    std::string value(8 * 1024 * 1024, '\0');
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31);
    store.set("large", value, soon());
    CHECK(store.get("large", soon()) == value);
    value.push_back('x');
    CHECK(error_of([&] { store.set("large", value, soon()); }).code() == Errc::usage);
    CHECK(error_of([&] { store.get(std::string(8192, 'k'), soon()); }).code() == Errc::usage);
    CHECK(store.number_of_keys(soon()) == 1);
  }

  TEST_CASE("store client: prefixes separate the keys of two clients") {
    TestStore server;
    Store plain = server.connect();
    Store prefixed = plain.with_prefix("p", soon());
    Store nested = prefixed.with_prefix("q", soon());
    plain.set("k", "plain", soon());
    prefixed.set("k", "prefixed", soon());
    nested.set("k", "nested", soon());
    CHECK(prefixed.get("k", soon()) == "prefixed");
    CHECK(plain.get("p/q/k", soon()) == "nested");
    CHECK(nested.list_keys(soon()) == std::vector<std::string>{"k"});
  }
}

}  // namespace store_client_test
