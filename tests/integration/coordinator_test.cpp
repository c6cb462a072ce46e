// The coordinator's port with invalid or faulty agents.
#include "rendezvous/membership/coordinator.hpp"

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/membership/message_channel.hpp"
#include "rendezvous/store/store_server.hpp"
#include "tests/support/raw_client.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <new>
#include <thread>

namespace coordinator_test {

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

Settings settings_of_pair() {
  return {.run_id = "run", .nodes_min = 2, .nodes_max = 2};
}

/// Coordinator and store at one port, on their own thread.
class Rendezvous {
 public:
  explicit Rendezvous(
      const Settings& settings = settings_of_pair(), std::function<void()> clear_store = [] {})
      : work_(context_.get_executor()),
        store_(std::make_unique<StoreServer>(context_.get_executor(), store_options())),
        coordinator_(std::make_unique<Coordinator>(
            context_.get_executor(), settings, nullptr, LeadershipTerm{}, std::move(clear_store),
            [this](LogLevel, std::string_view line) { warnings_.emplace_back(line); })) {
    store_->start();
    endpoint_ = store_->endpoint();
    thread_ = std::thread([this] { context_.run(); });
  }

  ~Rendezvous() {
    run([this] {
      coordinator_.reset();
      store_.reset();
    });
    work_.reset();
    thread_.join();  // every coroutine has ended
  }

  RawClient connect() const { return RawClient(endpoint_); }

  /// Waits for the coordinator's end; returns its error.
  std::exception_ptr await_end() {
    std::promise<std::exception_ptr> ended;
    const auto wait = [&]() -> boost::asio::awaitable<void> {
      co_await coordinator_->wait_until_over();
      ended.set_value(coordinator_->failure());
    };
    boost::asio::co_spawn(context_, wait, boost::asio::detached);
    return ended.get_future().get();
  }

  std::vector<std::string> warnings() {
    std::vector<std::string> copy;
    run([&] { copy = warnings_; });
    return copy;
  }

 private:
  StoreServerOptions store_options() {
    StoreServerOptions options;
    options.other_greeting = std::string(kGreeting);
    options.hand_over = [this](int fd, std::string_view bytes) { coordinator_->admit(fd, bytes); };
    return options;
  }

  void run(const std::function<void()>& action) {
    std::promise<void> done;
    boost::asio::post(context_, [&] {
      action();
      done.set_value();
    });
    done.get_future().wait();
  }

  std::vector<std::string> warnings_;  ///< used by the thread only
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<Coordinator> coordinator_;
  StoreEndpoint endpoint_;
  std::thread thread_;
};

/// First bytes of an agent in an open run.
const std::string kOpening = greeting() + '\0';

std::string bytes_of(const NodeMessage& message) {
  std::string bytes;
  append_message(bytes, message);
  return bytes;
}

Join join_as(const std::string& name) {
  return {.run_id = "run", .name = name, .nodes_min = 2, .nodes_max = 2};
}

/// Returns the next message of the coordinator; nothing if it closes the connection or is silent.
std::optional<CoordinatorMessage> on_message(const RawClient& client) {
  MessageReader<CoordinatorMessage> reader;
  const auto length = client.receive(sizeof(std::uint32_t));
  if (length.size() < sizeof(std::uint32_t)) return std::nullopt;
  std::uint32_t count = 0;
  for (std::size_t i = length.size(); i-- > 0;) {
    count = count << 8 | static_cast<unsigned char>(length[i]);
  }
  reader.feed(length);
  reader.feed(client.receive(count));
  return reader.next();
}

/// Nodes that wait for others are notified at times.
template <typename Message>
bool receives(const RawClient& client) {
  auto message = on_message(client);
  while (message && std::holds_alternative<Waiting>(*message)) message = on_message(client);
  return message && std::holds_alternative<Message>(*message);
}

/// Lets two nodes form a round, to check that the coordinator still works.
void form_a_round(Rendezvous& rendezvous) {
  const auto first = rendezvous.connect();
  const auto second = rendezvous.connect();
  first.send(kOpening + bytes_of(join_as("a")));
  REQUIRE(receives<Welcome>(first));
  second.send(kOpening + bytes_of(join_as("b")));
  REQUIRE(receives<Welcome>(second));
  CHECK(receives<RoundFormed>(first));
  CHECK(receives<RoundFormed>(second));
}

}  // namespace

TEST_SUITE("coordinator") {
  TEST_CASE("coordinator: an invalid or unexpected message closes only its sender's connection") {
    struct Row {
      std::string bytes, why;
    };
    const std::string big("\xff\xff\xff\x7f", 4);
    const std::vector<Row> rows = {
        {"DDPRUN/one\n", "did not greet as an agent does"},
        {"DDPRUN/\n", "did not greet as an agent does"},
        {"DDPRUN/" + std::string(300, '1'), "did not greet as an agent does"},
        {greeting() + '\7', "did not greet as an agent does"},
        {kOpening + big, "sent a message of 2147483647 bytes (at most 4096)"},
        {kOpening + std::string(4, '\0'), "sent a message of 0 bytes (at most 4096)"},
        {kOpening + bytes_of(Join{.run_id = std::string(5000, 'x')}), "bytes (at most 4096)"},
        {kOpening + std::string("\1\0\0\0\7", 5), "sent bytes that are not an agent's message"},
        {kOpening + bytes_of(Heartbeat{}), "did not begin by joining"},
        {kOpening + bytes_of(join_as("x")) + big, "2147483647 bytes (at most 4194304)"},
        {kOpening + bytes_of(join_as("x")) + bytes_of(join_as("x")), "joined twice"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.why);
      Rendezvous rendezvous;
      const auto client = rendezvous.connect();
      client.send(row.bytes);
      while (on_message(client)) continue;
      CHECK(client.is_closed_by_server());
      const auto warnings = rendezvous.warnings();
      REQUIRE(warnings.size() == 1);
      CHECK(warnings[0].find("127.0.0.1 ") != std::string::npos);
      CHECK(warnings[0].find(row.why) != std::string::npos);
      form_a_round(rendezvous);
    }
  }

  TEST_CASE("coordinator: a greeting and a first message may arrive byte by byte") {
    Rendezvous rendezvous;
    const auto client = rendezvous.connect();
    for (const char byte : kOpening + bytes_of(join_as("slow"))) {
      client.send(std::string(1, byte));
    }
    CHECK(receives<Welcome>(client));
    CHECK(rendezvous.warnings().empty());
  }

  TEST_CASE("coordinator: an agent of another version gets an error with both versions") {
    Rendezvous rendezvous;
    const auto client = rendezvous.connect();
    client.send("DDPRUN/17\nwhatever that version says");
    const auto answer = on_message(client);
    REQUIRE(answer);
    REQUIRE(std::holds_alternative<Refused>(*answer));
    CHECK(std::get<Refused>(*answer).reason ==
          "the version of the agents' messages is 17 on the node that joins and " +
              std::to_string(kProtocolVersion) + " on the one that hosts the rendezvous");
    CHECK(client.is_closed_by_server());
    form_a_round(rendezvous);
  }

  TEST_CASE("coordinator: a connection that closes within a message leaves no state") {
    const auto whole = kOpening + bytes_of(join_as("a"));
    // Fewer at once than the limit of unjoined connections: a server that detects their ends late
    // would report the oldest.
    constexpr std::size_t kAtOnce = 32;
    for (std::size_t begin = 1; begin < whole.size(); begin += kAtOnce) {
      Rendezvous rendezvous;
      for (auto bytes = begin; bytes < std::min(begin + kAtOnce, whole.size()); ++bytes) {
        rendezvous.connect().send(std::string_view(whole).substr(0, bytes));
      }
      form_a_round(rendezvous);
      for (const auto& warning : rendezvous.warnings()) FAIL_CHECK(warning);
    }
  }

  TEST_CASE("coordinator: many connections without a join are closed with a few warnings") {
    auto settings = settings_of_pair();
    settings.introduction_timeout = 500ms;
    settings.lease = 60s;
    Rendezvous rendezvous(settings);
    constexpr int kPeers = 60;
    std::vector<RawClient> peers;
    for (int i = 0; i < kPeers; ++i) {
      peers.push_back(rendezvous.connect());
      peers.back().send(kOpening);
    }
    form_a_round(rendezvous);
    for (const auto& peer : peers) REQUIRE(peer.is_closed_by_server());
    const auto warnings = rendezvous.warnings();
    CHECK(warnings.size() == 6);  // 1, 2, 4, ... 32
    CHECK(warnings.front() ==
          "rendezvous: 127.0.0.1 did not join within 0.5 s; its connection was closed");
    CHECK(warnings.back().ends_with("(32 times so far)"));
  }

  TEST_CASE("coordinator: a silent node is disconnected when its lease expires") {
    auto settings = settings_of_pair();
    settings.lease = 300ms;
    Rendezvous rendezvous(settings);
    const auto silent = rendezvous.connect();
    silent.send(kOpening + bytes_of(join_as("silent")));
    CHECK(receives<Welcome>(silent));
    while (on_message(silent)) continue;
    CHECK(silent.is_closed_by_server());
    form_a_round(rendezvous);
  }

  TEST_CASE("coordinator: an internal error closes all connections with the reason") {
    Rendezvous rendezvous(settings_of_pair(), [] { throw std::bad_alloc(); });
    const auto first = rendezvous.connect();
    const auto second = rendezvous.connect();
    first.send(kOpening + bytes_of(join_as("a")));
    REQUIRE(receives<Welcome>(first));
    second.send(kOpening + bytes_of(join_as("b")));
    const auto failure = rendezvous.await_end();
    REQUIRE(failure);
    CHECK_THROWS_AS(std::rethrow_exception(failure), std::bad_alloc);
    CHECK(first.is_closed_by_server());
    while (on_message(second)) continue;
    CHECK(second.is_closed_by_server());
    const auto third = rendezvous.connect();
    third.send(greeting());
    CHECK(third.is_closed_by_server());
  }

  TEST_CASE("coordinator: a node that sends many messages does not delay other nodes") {
    boost::asio::io_context context(1);
    std::unique_ptr<Coordinator> coordinator;
    StoreServerOptions options;
    options.other_greeting = std::string(kGreeting);
    options.hand_over = [&](int fd, std::string_view bytes) { coordinator->admit(fd, bytes); };
    StoreServer store(context.get_executor(), options);
    coordinator = std::make_unique<Coordinator>(
        context.get_executor(), settings_of_pair(), nullptr, LeadershipTerm{}, [] {}, Log());
    store.start();
    const RawClient flooding(store.endpoint());
    const RawClient modest(store.endpoint());
    std::string heartbeats;
    for (int i = 0; i < 1000; ++i) heartbeats += bytes_of(Heartbeat{1});
    REQUIRE(flooding.send(kOpening + bytes_of(join_as("a"))));
    REQUIRE(modest.send(kOpening + bytes_of(join_as("b"))));
    const auto serve = [&](const RawClient& client) {
      while (client.is_open_and_silent()) context.run_one_for(20s);
      return on_message(client).value();
    };
    for (const auto* client : {&flooding, &modest})
      while (!std::holds_alternative<RoundFormed>(serve(*client))) continue;
    REQUIRE(flooding.send(heartbeats));
    REQUIRE(modest.send(bytes_of(Heartbeat{1})));
    serve(modest);
    coordinator.reset();
    store.stop();
    context.run();
    int replies = 0;
    while (on_message(flooding)) ++replies;
    CHECK(replies < 500);
  }

  TEST_CASE("coordinator: a node that does not read is disconnected without affecting others") {
    auto settings = settings_of_pair();
    settings.lease = 60s;
    Rendezvous rendezvous(settings);
    const auto deaf = rendezvous.connect();
    deaf.send(kOpening + bytes_of(join_as("deaf")));
    // Each has a response; send() returns once the connection is closed.
    std::string heartbeats;
    while (heartbeats.size() < (std::size_t{1} << 20)) heartbeats += bytes_of(Heartbeat{1});
    constexpr int kMegabytesMax = 64;  // more than the limit and the kernel's buffers together
    int megabytes = 0;
    while (megabytes < kMegabytesMax && deaf.send(heartbeats)) ++megabytes;
    CHECK(megabytes >= 16);
    CHECK(megabytes < kMegabytesMax);
    form_a_round(rendezvous);
  }

  TEST_CASE("coordinator: an unknown name of its endpoint is reported repeatedly") {
    boost::asio::io_context io;
    HostChoice choice{.endpoint = {.host = "no such host", .port = 1}};
    choice.settings.join_timeout = 4500ms;
    choice.settings.waiting_notice = 0ms;
    choice.admission.other_agents = true;
    std::vector<std::string> warnings;
    auto choosing = choose_host(io.get_executor(), choice, [&](LogLevel, std::string_view text) {
      warnings.emplace_back(text);
    });
    auto chosen = boost::asio::co_spawn(io, std::move(choosing), boost::asio::use_future);
    io.run();
    CHECK_THROWS_AS(chosen.get(), Error);
    CHECK(warnings.size() > 1);
    for (const auto& warning : warnings)
      CHECK(warning.find("; trying again for ") != std::string::npos);
  }
}

}  // namespace coordinator_test
