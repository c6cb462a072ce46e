// An agent's connection to a peer that is not a coordinator.
#include "launcher/agent/coordinator_link.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace coordinator_link_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// The reply of a PyTorch store to a probe: the number of the ping, and one of three keys exists.
const std::string kTorchrunReply("\xDD\xDD\xDD\xDD\x00\x01\x01", 7);

/// Keeps its first connection open and silent, closes the two of the first probe, and replies to
/// the next one like the store of a torchrun.
class LateTorchrun {
 public:
  explicit LateTorchrun(asio::io_context& io)
      : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}) {
    asio::co_spawn(io, serve(), asio::detached);
  }

  StoreEndpoint endpoint() const {
    return {.host = "127.0.0.1", .port = acceptor_.local_endpoint().port()};
  }
  void close() { acceptor_.close(); }

 private:
  asio::awaitable<void> serve() {
    while (true) {
      auto socket = co_await acceptor_.async_accept(asio::use_awaitable);
      ++accepted_;
      if (accepted_ == 2 || accepted_ == 3) continue;
      kept_.push_back(std::move(socket));
      if (accepted_ > 3)
        co_await asio::async_write(kept_.back(), asio::buffer(kTorchrunReply), asio::use_awaitable);
    }
  }

  tcp::acceptor acceptor_;
  std::vector<tcp::socket> kept_;
  int accepted_ = 0;
};

asio::awaitable<membership::Found> found_at(StoreEndpoint endpoint) {
  co_return membership::Found{.endpoint = std::move(endpoint), .connect_timeout = 20s};
}

}  // namespace

TEST_SUITE("coordinator link") {
  TEST_CASE("coordinator link: a silent peer is probed until torchrun is recognised") {
    asio::io_context io(1);
    LateTorchrun peer(io);
    LaunchPlan plan;
    plan.run_id = "job";
    std::optional<std::string> loss;
    const auto take = [&](const membership::NodeEvent& event) {
      if (const auto* lost = std::get_if<membership::ConnectionLost>(&event)) loss = lost->reason;
    };
    const auto link = std::make_shared<CoordinatorLink>(
        io.get_executor(), plan, nullptr,
        CoordinatorLink::Listener{.take = take, .note = [](const std::string&) {}});
    const auto deadline = Deadline::after(20s);
    link->connect(found_at(peer.endpoint()), deadline.time());
    while (!loss && !deadline.passed()) io.run_one_for(1s);
    link->close();
    peer.close();
    io.run_for(20s);
    CHECK(io.stopped());
    REQUIRE(loss);
    CHECK(
        loss->ends_with(": it is a torchrun; torchrun and ddprun cannot share a run; start every "
                        "node with ddprun"));
  }
}

}  // namespace coordinator_link_test
