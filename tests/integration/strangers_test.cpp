// The agents' port of a run with a secret: peers without the secret, and many connections.
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/store/acceptor.hpp"
#include "tests/support/dialogues.hpp"
#include "tests/support/raw_client.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <future>
#include <thread>

namespace strangers_test {

using namespace ddprun;
using namespace ddprun::membership;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const security::Secret kSecret = secret_of('s');
const security::Secret kOther = secret_of('t');

/// Far longer than a test: results must not depend on time limits.
Settings patient_settings() {
  Settings settings{.run_id = "run", .nodes_min = 2, .nodes_max = 2};
  settings.lease = 600s;
  settings.handshake_timeout = 600s;
  settings.introduction_timeout = 600s;
  return settings;
}

/// On its own thread.
class Rendezvous {
 public:
  explicit Rendezvous(const Settings& settings)
      : work_(context_.get_executor()),
        coordinator_(std::make_unique<Coordinator>(
            context_.get_executor(), settings, &kSecret, LeadershipTerm{}, [] {},
            [this](LogLevel, std::string_view line) { warnings_.emplace_back(line); })),
        acceptor_(std::make_unique<Acceptor>(
            context_.get_executor(), StoreEndpoint{"127.0.0.1", 0},
            [this](int fd) { coordinator_->admit(fd, {}); }, [](const std::string&) {})) {
    acceptor_->start();
    endpoint_ = acceptor_->endpoint();
    thread_ = std::thread([this] { context_.run(); });
  }

  ~Rendezvous() {
    run([this] {
      acceptor_.reset();
      coordinator_.reset();
    });
    work_.reset();
    thread_.join();  // every coroutine has ended
  }

  RawClient connect() const { return RawClient(endpoint_); }

  std::vector<std::string> warnings() {
    std::vector<std::string> copy;
    run([&] { copy = warnings_; });
    return copy;
  }

 private:
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
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Acceptor> acceptor_;
  StoreEndpoint endpoint_;
  std::thread thread_;
};

/// An agent's connection, byte by byte.
class Agent {
 public:
  Agent(const Rendezvous& rendezvous, const security::Secret& secret)
      : client(rendezvous.connect()),
        dialogue_(&secret, "run", random_bytes(security::kDigestBytes)) {
    client.send(dialogue_.take_outgoing());
  }

  void join(const std::string& name) {
    send(Join{.run_id = "run", .name = name, .nodes_min = 2, .nodes_max = 2});
  }

  void send(const NodeMessage& message) {
    dialogue_.send(message);
    client.send(dialogue_.take_outgoing());
  }

  /// Empty if the connection ends first.
  std::optional<CoordinatorMessage> on_message() {
    while (true) {
      auto message = dialogue_.next();
      client.send(dialogue_.take_outgoing());
      if (message) return message;
      const auto byte = client.receive(1);
      if (byte.empty()) return std::nullopt;
      dialogue_.feed(byte);
    }
  }

  template <typename Message>
  bool receives() {
    auto message = on_message();
    // Nodes that wait for others are notified at times.
    while (message && std::holds_alternative<Waiting>(*message)) message = on_message();
    return message && std::holds_alternative<Message>(*message);
  }

  /// Authenticates and sends no more.
  void prove() {
    constexpr std::size_t kChallengeMessage = 5 + security::kChallengeBytes;
    dialogue_.feed(client.receive(kChallengeMessage));
    dialogue_.next();
    client.send(dialogue_.take_outgoing());
  }

  RawClient client;

 private:
  AgentDialogue dialogue_;
};

/// Lets two nodes form a round, to check that the run still works.
void form_a_round(const Rendezvous& rendezvous) {
  Agent first(rendezvous, kSecret);
  Agent second(rendezvous, kSecret);
  first.join("a");
  second.join("b");
  REQUIRE(first.receives<Welcome>());
  REQUIRE(second.receives<Welcome>());
  CHECK(first.receives<RoundFormed>());
  CHECK(second.receives<RoundFormed>());
}

/// Maximum number of connections without a name, in a run of two nodes.
constexpr std::size_t kPlaces = 64 + 2;

}  // namespace

TEST_SUITE("strangers") {
  TEST_CASE("agents' port: a node with a wrong secret is rejected and reported once") {
    Rendezvous rendezvous(patient_settings());
    Agent stranger(rendezvous, kOther);
    stranger.join("x");
    const auto answer = stranger.on_message();
    REQUIRE(answer);
    REQUIRE(std::holds_alternative<Refused>(*answer));
    CHECK(std::get<Refused>(*answer).reason.find("does not know this run's secret") !=
          std::string::npos);
    CHECK(stranger.client.is_closed_by_server());
    CHECK(rendezvous.warnings() ==
          std::vector<std::string>{"rendezvous: refused 127.0.0.1: it does not know this run's "
                                   "secret (--secret_file)"});
    form_a_round(rendezvous);
  }

  TEST_CASE("agents' port: connections of other programs are closed") {
    Rendezvous rendezvous(patient_settings());
    for (const std::string bytes : {"GET / HTTP/1.1\r\n\r\n", "\x0b\x0e\x0b\x0e", "\n"}) {
      const auto client = rendezvous.connect();
      client.send(bytes);
      CHECK(client.is_closed_by_server());
    }
    form_a_round(rendezvous);
  }

  TEST_CASE("agents' port: new connections replace only the oldest silent connections") {
    Rendezvous rendezvous(patient_settings());
    Agent first(rendezvous, kSecret);
    first.join("a");
    REQUIRE(first.receives<Welcome>());
    std::vector<RawClient> strangers;
    for (std::size_t i = 0; i < kPlaces + 3; ++i) strangers.push_back(rendezvous.connect());
    for (std::size_t i = 0; i < 3; ++i) CHECK(strangers[i].is_closed_by_server());
    CHECK(strangers[3].is_open_and_silent());
    CHECK(strangers.back().is_open_and_silent());
    const auto warnings = rendezvous.warnings();
    REQUIRE(warnings.size() == 2);  // of the first and the second
    CHECK(warnings[0] ==
          "rendezvous: too many connections that have not joined; the oldest, of 127.0.0.1, was "
          "closed");
    // At the limit of connections.
    Agent second(rendezvous, kSecret);
    second.join("b");
    REQUIRE(second.receives<Welcome>());
    CHECK(first.receives<RoundFormed>());
    CHECK(strangers[3].is_closed_by_server());
  }

  TEST_CASE("agents' port: the number of authenticated connections without a join is limited") {
    Rendezvous rendezvous(patient_settings());
    std::vector<Agent> silent;
    for (std::size_t i = 0; i < kPlaces + 1; ++i) {
      silent.emplace_back(rendezvous, kSecret);
      silent.back().prove();
    }
    CHECK(silent.front().client.is_closed_by_server());
    // Unauthenticated connections do not replace authenticated ones.
    std::vector<RawClient> strangers;
    for (std::size_t i = 0; i < kPlaces + 1; ++i) strangers.push_back(rendezvous.connect());
    CHECK(strangers.front().is_closed_by_server());
    silent[1].join("a");
    CHECK(silent[1].receives<Welcome>());
  }

  TEST_CASE("agents' port: a thousand silent connections do not affect the run") {
    Rendezvous rendezvous(patient_settings());
    constexpr std::size_t kMany = 1000;
    std::vector<RawClient> strangers;
    for (std::size_t i = 0; i < kMany; ++i) strangers.push_back(rendezvous.connect());
    form_a_round(rendezvous);
    CHECK(rendezvous.warnings().size() <= 10);  // 1, 2, 4, ... 512
  }

  TEST_CASE("agents' port: a connection that authenticates or joins too late is closed") {
    auto settings = patient_settings();
    settings.handshake_timeout = 300ms;
    settings.introduction_timeout = 300ms;
    Rendezvous rendezvous(settings);
    const auto silent = rendezvous.connect();
    CHECK(silent.is_closed_by_server());
    const auto slow = rendezvous.connect();
    slow.send(greeting() + '\1');
    CHECK(slow.is_closed_by_server());
    Agent shy(rendezvous, kSecret);
    shy.prove();
    CHECK(shy.client.is_closed_by_server());
    const auto warnings = rendezvous.warnings();
    const std::string from = "rendezvous: 127.0.0.1 did not ";
    const std::string end = " within 0.3 s; its connection was closed";
    REQUIRE(warnings.size() == 2);  // the first and the second of their kind
    CHECK(warnings[0] == from + "prove that it knows this run's secret" + end);
    CHECK(warnings[1].starts_with(from + "prove that it knows this run's secret" + end));
  }

  TEST_CASE("agents' port: a modified message closes only the connection of its node") {
    Rendezvous rendezvous(patient_settings());
    Agent node(rendezvous, kSecret);
    node.join("a");
    REQUIRE(node.receives<Welcome>());
    node.client.send(std::string("\x09\0\0\0\1", 5) + std::string(8 + security::kSealBytes, '\0'));
    CHECK(node.client.is_closed_by_server());
    REQUIRE(rendezvous.warnings().size() == 1);
    CHECK(rendezvous.warnings()[0].find("changed on its way") != std::string::npos);
    form_a_round(rendezvous);
  }
}

}  // namespace strangers_test
