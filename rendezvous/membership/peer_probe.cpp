#include "rendezvous/membership/peer_probe.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/store/acceptor.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// A process that is delayed by more may have missed an answer.
constexpr auto kNoticedDelay = std::chrono::milliseconds(500);

/// Returns true if a connection attempt failed for a local reason, unrelated to the network.
bool is_own_lack(const boost::system::error_code& error) {
  constexpr std::array kErrors = {EMFILE,        ENFILE,       ENOMEM, ENOBUFS,
                                  EADDRNOTAVAIL, EAFNOSUPPORT, EINVAL, EAGAIN};
  return std::find(kErrors.begin(), kErrors.end(), error.value()) != kErrors.end();
}

bool is_useful(const std::string& address) {
  const bool has_scope = address.find('%') != std::string::npos;
  return !address.empty() && !has_scope && !is_loopback(address);
}

struct Attempts {
  explicit Attempts(const asio::any_io_executor& executor) : ended(executor, Time::max()) {}

  using Time = asio::steady_timer::time_point;
  std::size_t under_way = 0;
  std::vector<std::uint32_t> unreachable;
  asio::steady_timer ended;  ///< cancelled when no attempt is pending
};

asio::awaitable<boost::system::error_code> connect_once(tcp::socket& socket,
                                                        tcp::endpoint endpoint) {
  const auto result = co_await socket.async_connect(endpoint, kAwait);
  co_return std::get<0>(result);
}

asio::awaitable<void> attempt(std::shared_ptr<Attempts> attempts, std::uint32_t index,
                              tcp::endpoint endpoint, Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::socket socket(executor);
  auto connecting = connect_once(socket, endpoint);
  const auto error = co_await with_deadline(std::move(connecting), deadline);
  const bool has_timed_out = !error || *error == asio::error::operation_aborted;
  const bool is_late = Deadline::Clock::now() - deadline.time() > kNoticedDelay;
  const bool is_cut = has_timed_out ? !is_late : *error && !is_own_lack(*error);
  if (is_cut) attempts->unreachable.push_back(index);
}

}  // namespace

ProbeListener::ProbeListener(const asio::any_io_executor& executor,
                             const std::string& local_address) {
  if (!is_useful(local_address)) return;
  try {
    acceptor_ = std::make_unique<Acceptor>(
        executor, StoreEndpoint{local_address, 0}, [](int fd) { ::close(fd); },
        [](const std::string&) {});
    acceptor_->start();
  } catch (const Error&) {
    // The node joins without being probed.
  }
}

ProbeListener::~ProbeListener() = default;

ProbeAddress ProbeListener::address() const {
  if (!acceptor_) return {};
  return {.host = acceptor_->endpoint().host, .port = acceptor_->endpoint().port};
}

asio::awaitable<std::vector<std::uint32_t>> find_unreachable(std::vector<ProbeAddress> peers,
                                                             Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const auto attempts = std::make_shared<Attempts>(executor);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    boost::system::error_code is_malformed;
    const auto address = asio::ip::make_address(peers[i].host, is_malformed);
    if (peers[i].port == 0 || is_malformed) continue;
    ++attempts->under_way;
    asio::co_spawn(executor,
                   attempt(attempts, static_cast<std::uint32_t>(i),
                           tcp::endpoint(address, peers[i].port), deadline),
                   [attempts](const std::exception_ptr&) {
                     // An attempt that fails, such as for lack of memory, proves no cut.
                     if (--attempts->under_way == 0) attempts->ended.cancel();
                   });
  }
  if (attempts->under_way > 0) co_await attempts->ended.async_wait(kAwait);
  std::sort(attempts->unreachable.begin(), attempts->unreachable.end());
  co_return attempts->unreachable;
}

}  // namespace ddprun::membership
