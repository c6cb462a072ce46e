#include "rendezvous/store/store_server.hpp"

#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/request.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace store_server_test {

namespace wire = ddprun::wire;
using ddprun::Deadline;
using ddprun::Errc;
using ddprun::Error;
using ddprun::Store;
using ddprun::StoreServerStats;
using ddprun::test::RawClient;
using ddprun::test::store_greeting;
using ddprun::test::store_request;
using ddprun::test::TestStore;
using namespace std::chrono_literals;

namespace {

Deadline soon() {
  return Deadline::after(20s);
}

std::string legacy(const wire::Request& request) {
  std::string bytes;
  wire::append_request(bytes, request, wire::Dialect::legacy);
  return bytes;
}

/// Sets a key and waits until it exists: a SET has no reply, and another connection may be faster.
void set_now(Store& store, const std::string& key, const std::string& value) {
  store.set(key, value, soon());
  store.number_of_keys(soon());
}

std::string number(std::int64_t value) {
  std::string bytes;
  wire::append_integer(bytes, value);
  return bytes;
}

std::string string(std::string_view value) {
  std::string bytes;
  wire::append_string(bytes, value);
  return bytes;
}

bool any_contains(const std::vector<std::string>& lines, const std::string& text) {
  for (const auto& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("store server") {
  TEST_CASE("store: old and new clients share one port and one key space") {
    TestStore server;
    RawClient old_client(server.endpoint());
    RawClient new_client(server.endpoint());
    old_client.send(legacy(wire::Add{"init/", 1}));
    CHECK(old_client.receive(8) == number(1));
    new_client.send(store_greeting() + store_request(wire::Ping{77}) +
                    store_request(wire::Add{"init/", 1}));
    CHECK(new_client.receive(4) == std::string("M\0\0\0", 4));
    CHECK(new_client.receive(8) == number(2));
    old_client.send(legacy(wire::Wait{{"/k"}}));
    CHECK(server.wait_until([](const auto& stats) { return stats.waits == 1; }));
    new_client.send(store_request(wire::Set{"/k", "v"}));
    CHECK(old_client.receive(1) == std::string(1, '\0'));
    old_client.send(legacy(wire::Get{"/k"}));
    CHECK(old_client.receive(9) == string("v"));
  }

  TEST_CASE("store: a half-sent request does not delay other clients") {
    TestStore server;
    RawClient slow(server.endpoint());
    const std::string request = store_greeting() + store_request(wire::Set{"/slow", "value"});
    slow.send(request.substr(0, request.size() - 3));
    Store busy = server.connect();
    for (int i = 1; i <= 1000; ++i) CHECK(busy.add("n", 1, soon()) == i);
    CHECK(busy.try_get("slow", soon()) == std::nullopt);
    slow.send(request.substr(request.size() - 3));
    CHECK(busy.get("slow", soon()) == "value");
  }

  TEST_CASE("store: invalid input closes only the sender's connection with a warning") {
    const std::string giant(8, '\x7f');
    const std::vector<std::pair<const char*, std::string>> rude = {
        {"an HTTP request", "GET / HTTP/1.1\r\nHost: store\r\n\r\n"},
        {"a TLS client", "\x16\x03\x01\x02"},
        {"a wrong magic", std::string("\0\xce\xf7\x85\x3d", 5)},
        {"an unknown operation", store_greeting() + "\x63"},
        {"a second greeting", store_greeting() + store_greeting()},
        {"a giant key", store_greeting() + "\x03" + giant},
        {"a giant value", store_greeting() + "\x01" + string("/k") + giant},
        {"a giant number of keys", store_greeting() + "\x06" + giant},
        {"a giant legacy key", "\x02" + giant},
    };
    TestStore server;
    Store polite = server.connect();
    for (const auto& [name, bytes] : rude) {
      const char* const what = name;
      CAPTURE(what);
      RawClient client(server.endpoint());
      client.send(bytes);
      CHECK(client.is_closed_by_server());
      CHECK(polite.add("n", 1, soon()) > 0);
    }
    const auto stats = server.stats();
    CHECK(stats.malformed == rude.size());
    CHECK(stats.connections == 1);
    // Nine errors: the first, second, fourth and eighth are logged.
    CHECK(server.warnings().size() == 4);
    CHECK(any_contains(server.warnings(), "sent the unknown operation code 71"));
    CHECK(any_contains(server.warnings(), "store at 127.0.0.1:"));
    CHECK(any_contains(server.warnings(), "(8 times so far)"));
  }

  TEST_CASE("store: a port scan leaves no state") {
    TestStore server;
    for (int i = 0; i < 50; ++i) RawClient scan(server.endpoint());
    CHECK(server.wait_until([](const auto& stats) { return stats.connections == 0; }));
    CHECK(server.connect().add("n", 1, soon()) == 1);
    CHECK(server.warnings().empty());
  }

  TEST_CASE("store: an invalid operation closes the connection and changes nothing") {
    TestStore server;
    Store store = server.connect();
    set_now(store, "text", "abc");
    RawClient client(server.endpoint());
    client.send(store_greeting() + store_request(wire::Add{"/text", 1}));
    CHECK(client.is_closed_by_server());
    CHECK(store.get("text", soon()) == "abc");
    CHECK(any_contains(server.warnings(), "adds to /text, whose value is not a number"));
  }

  TEST_CASE("store: the silent second connection of a legacy client stays open") {
    TestStore server;
    RawClient silent(server.endpoint());
    Store store = server.connect();
    for (int i = 0; i < 100; ++i) store.add("n", 1, soon());
    CHECK(silent.is_open_and_silent());
    CHECK(server.stats().connections == 2);
    silent.send(legacy(wire::WatchKey{"/k"}));
    CHECK(silent.receive(1) == "\x03");
    store.set("k", "v", soon());
    CHECK(silent.receive(28) == "\x01" + string("/k") + string("") + string("v"));
  }

  TEST_CASE("store: a thousand idle connections do not affect other clients") {
    // For this process and that of the store; the usual soft limit is slightly too low.
    rlimit open_files{};
    ::getrlimit(RLIMIT_NOFILE, &open_files);
    open_files.rlim_cur = open_files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &open_files);
    TestStore server;
    std::vector<RawClient> idle;
    for (int i = 0; i < 1000; ++i) idle.emplace_back(server.endpoint());
    Store store = server.connect();
    for (int i = 1; i <= 100; ++i) CHECK(store.add("n", 1, soon()) == i);
    CHECK(server.stats().connections == 1001);
  }

  TEST_CASE("store: a connection beyond the limit is closed") {
    TestStore server({.connections_max = 2});
    RawClient first(server.endpoint());
    {
      RawClient second(server.endpoint());
      CHECK(server.wait_until([](const auto& stats) { return stats.connections == 2; }));
      RawClient third(server.endpoint());
      CHECK(third.is_closed_by_server());
      CHECK(any_contains(server.warnings(), "refused a connection: there are 2 (at most 2)"));
    }
    CHECK(server.wait_until([](const auto& stats) { return stats.connections == 1; }));
    CHECK(server.connect().add("n", 1, soon()) == 1);
    CHECK(server.stats().over_connections == 1);
  }

  TEST_CASE("store: a client that does not read is disconnected before memory runs out") {
    TestStore server({.unread_bytes_max = 1 << 20});
    Store store = server.connect();
    set_now(store, "k", std::string(1 << 19, 'x'));
    RawClient deaf(server.endpoint());
    deaf.send(store_greeting());
    std::string many;
    for (int i = 0; i < 1000; ++i) many += store_request(wire::Get{"/k"});
    deaf.send(many);
    CHECK(server.wait_until([](const auto& stats) { return stats.slow_readers == 1; }));
    CHECK(store.get("k", soon()).size() == 1 << 19);
  }

  TEST_CASE("store: a queued request counts towards the byte limit") {
    constexpr std::size_t kBytes = 300 << 10;
    boost::asio::io_context io(1);
    ddprun::StoreServer server(io.get_executor(), {});
    server.start();
    const RawClient client(server.endpoint());
    const std::string request =
        store_greeting() + store_request(wire::Set{"/k", std::string(kBytes, 'x')});
    REQUIRE(client.send(request.substr(0, request.size() - 10)));
    while (server.stats().bytes < kBytes - 10) io.run_one_for(20s);
    REQUIRE(client.send(request.substr(request.size() - 10)));
    while (server.stats().keys == 0) {
      CHECK(server.stats().bytes >= kBytes - 10);
      io.run_one_for(20s);
    }
    server.stop();
  }

  TEST_CASE("store: notifications of a large value are bounded and do not block the setter") {
    constexpr int kWatchers = 20;
    constexpr std::size_t kMax = 5 * wire::kValueBytesMax;
    TestStore server({.bytes_max = kMax});
    std::vector<RawClient> watchers;
    for (int i = 0; i < kWatchers; ++i) {
      watchers.emplace_back(server.endpoint());
      watchers.back().send(legacy(wire::WatchKey{"/k"}));
      CHECK(watchers.back().receive(1) == "\x03");
    }
    Store setter = server.connect();
    set_now(setter, "k", std::string(wire::kValueBytesMax, 'x'));
    CHECK(setter.get("k", soon()).size() == wire::kValueBytesMax);
    const auto stats = server.stats();
    CHECK(stats.bytes <= kMax);
    CHECK(stats.slow_readers > 0);
    CHECK(stats.connections + stats.slow_readers == kWatchers + 1);
  }

  TEST_CASE("store: replies larger than the socket buffer do not delay other clients") {
    TestStore server;
    Store store = server.connect();
    const std::string value(wire::kValueBytesMax, 'x');
    set_now(store, "k", value);
    RawClient reader(server.endpoint());
    reader.send(store_greeting() + store_request(wire::MultiGet{{"/k", "/k", "/k"}}));
    for (int i = 0; i < 100; ++i) store.add("n", 1, soon());
    const std::string reply = reader.receive(3 * (8 + value.size()));
    CHECK(reply == string(value) + string(value) + string(value));
    reader.send(store_request(wire::Ping{77}));
    CHECK(reader.receive(4) == std::string("M\0\0\0", 4));
    CHECK(server.wait_until([&](const auto& stats) { return stats.bytes < value.size() + 1000; }));
  }

  TEST_CASE("store: a value whose receiver disconnects goes to the next waiting client") {
    TestStore server;
    Store pusher = server.connect();
    Store next = server.connect();
    std::string value;
    std::thread thread;
    {
      RawClient first(server.endpoint());
      first.send(store_greeting() + store_request(wire::Wait{{"/q"}}));
      CHECK(server.wait_until([](const auto& stats) { return stats.waits == 1; }));
      thread = std::thread([&] { value = next.queue_pop("q", soon()); });
      CHECK(server.wait_until([](const auto& stats) { return stats.waits == 2; }));
      pusher.queue_push("q", "v", soon());
      CHECK(first.receive(1) == std::string(1, '\0'));
    }
    thread.join();
    CHECK(value == "v");
  }

  TEST_CASE("store: partially received requests count towards the byte limit") {
    TestStore server({.bytes_max = 100'000});
    RawClient greedy(server.endpoint());
    greedy.send(store_greeting() + "\x01" + string("/k") + number(1 << 20));
    greedy.send(std::string(200'000, 'x'));
    CHECK(greedy.is_closed_by_server());
    CHECK(server.wait_until([](const auto& stats) { return stats.refused == 1; }));
    CHECK(server.stats().bytes == 0);
  }

  TEST_CASE("store: a new attempt has no keys or connections of the previous attempt") {
    TestStore server;
    Store old_client = server.connect();
    old_client.set("k", "old", soon());
    RawClient waiting(server.endpoint());
    waiting.send(legacy(wire::Wait{{"/new"}}));
    CHECK(server.wait_until([](const auto& stats) { return stats.waits == 1; }));
    const auto port = server.endpoint().port;
    server.run([&](ddprun::StoreServer& store) {
      // On the server's thread: this connection is established and not yet accepted when the
      // attempt ends.
      RawClient not_accepted(store.endpoint());
      not_accepted.send(store_greeting() + store_request(wire::Set{"/sneaked", "in"}));
      store.new_attempt();
      CHECK(not_accepted.is_closed_by_server());
    });
    CHECK(waiting.is_closed_by_server());
    CHECK(server.endpoint().port == port);
    Store new_client = server.connect();
    CHECK(new_client.number_of_keys(soon()) == 0);
    CHECK_THROWS_AS(old_client.get("k", soon()), Error);
    CHECK_THROWS_AS(old_client.get("k", soon()), Error);
    CHECK(server.stats().connections == 1);
  }

  TEST_CASE("store: many attempts at one port leave no connections or keys") {
    TestStore server;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Store store = server.connect();
      CHECK(store.add("n", 1, soon()) == 1);
      server.run([](ddprun::StoreServer& instance) { instance.new_attempt(); });
    }
    const StoreServerStats stats = server.stats();
    CHECK(stats.connections == 0);
    CHECK(stats.keys == 0);
    CHECK(stats.bytes == 0);
  }

  TEST_CASE("store: a port in use is reported with the process that holds it") {
    TestStore server;
    boost::asio::io_context context;
    ddprun::StoreServerOptions options;
    options.port = server.endpoint().port;
    try {
      ddprun::StoreServer second(context.get_executor(), options);
      FAIL("the port was given away twice");
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK(error.code() == Errc::system);
      CHECK(message.find("port " + std::to_string(options.port) + " is in use by process " +
                         std::to_string(::getpid()) + " (") != std::string::npos);
    }
  }

  TEST_CASE("store: listening at an address of another machine is rejected") {
    boost::asio::io_context context;
    for (const char* address : {"192.0.2.1", "no.such.host.invalid"}) {
      ddprun::StoreServerOptions options;
      options.address = address;
      CHECK_THROWS_AS(ddprun::StoreServer(context.get_executor(), options), Error);
    }
  }

  TEST_CASE("store: stop() frees all connections even if the executor does not run") {
    boost::asio::io_context context;
    ddprun::StoreServer server(context.get_executor(), {});
    server.start();
    context.poll();
    RawClient client(server.endpoint());
    context.poll();
    CHECK(server.stats().connections == 1);
    server.stop();
    server.stop();
    CHECK(server.stats().connections == 0);
    CHECK(client.is_closed_by_server());
  }
}

}  // namespace store_server_test
