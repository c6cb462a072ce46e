#include "rendezvous/membership/host.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/coordinator.hpp"
#include "rendezvous/store/store_server.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// In Kubernetes a name may come into being some seconds after the containers that ask for it.
constexpr auto kLookupPause = std::chrono::seconds(1);

asio::awaitable<std::vector<std::string>> find_endpoint(asio::any_io_executor executor,
                                                        StoreEndpoint endpoint, Log log,
                                                        Deadline deadline) {
  asio::steady_timer pause(executor);
  bool has_told = false;
  while (true) {
    const auto found = co_await addresses_of(endpoint.host, deadline);
    if (!found.addresses.empty()) co_return found.addresses;
    if (deadline.passed()) {
      throw Error(Errc::network, "rendezvous at " + to_string(endpoint) + ": " + found.problem +
                                     " " + deadline.describe());
    }
    if (!std::exchange(has_told, true)) {
      write_log(log, LogLevel::warn,
                "rendezvous at " + to_string(endpoint) + ": " + found.problem + "; trying again");
    }
    pause.expires_after(kLookupPause);
    co_await pause.async_wait(kAwait);
  }
}

/// The address to listen at: that which the others know. A name that only this machine takes for a
/// loopback address (Debian's 127.0.1.1) means another one to the others.
std::string bind_address(const std::string& host, const std::vector<std::string>& addresses) {
  const auto own = own_addresses();
  const auto is_own = [&](const std::string& address) {
    return std::find(own.begin(), own.end(), address) != own.end();
  };
  const auto fitting = std::find_if(addresses.begin(), addresses.end(), [&](const auto& address) {
    return !is_loopback(address) && is_own(address);
  });
  if (fitting != addresses.end()) return *fitting;
  const bool is_meant = host == "localhost" || is_loopback(host);
  if (is_meant) return addresses.front();
  return "0.0.0.0";
}

bool is_this_machine(const std::vector<std::string>& addresses) {
  const auto own = own_addresses();
  return std::any_of(addresses.begin(), addresses.end(), [&](const auto& address) {
    return is_loopback(address) || std::find(own.begin(), own.end(), address) != own.end();
  });
}

}  // namespace

struct Host::Parts {
  StoreEndpoint endpoint;
  std::string note;
  std::unique_ptr<StoreServer> store;
  std::unique_ptr<Coordinator> coordinator;

  void listen(const asio::any_io_executor& executor, const HostChoice& choice,
              const std::string& address, const Log& log) {
    store = std::make_unique<StoreServer>(
        executor, StoreServerOptions{.address = address,
                                     .port = choice.endpoint.port,
                                     .log = log,
                                     .other_greeting = std::string(kGreeting),
                                     .hand_over = [this](int fd, std::string_view bytes) {
                                       coordinator->admit(fd, bytes);
                                     }});
    coordinator = std::make_unique<Coordinator>(
        executor, choice.settings, choice.secret, Office{}, [this] { store->new_attempt(); }, log);
    store->start();
    if (address != "0.0.0.0") endpoint.host = address;
  }
};

Host::Host(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Host::Host() = default;
Host::Host(Host&&) noexcept = default;
Host& Host::operator=(Host&&) noexcept = default;
Host::~Host() = default;

bool Host::is_here() const {
  return parts_->coordinator != nullptr;
}

const StoreEndpoint& Host::endpoint() const {
  return parts_->endpoint;
}

const std::string& Host::note() const {
  return parts_->note;
}

asio::awaitable<void> Host::wait_until_over() {
  if (is_here()) co_await parts_->coordinator->wait_until_over();
}

std::exception_ptr Host::failure() const {
  return is_here() ? parts_->coordinator->failure() : nullptr;
}

asio::awaitable<Host> choose_host(asio::any_io_executor executor, HostChoice choice, Log log) {
  auto parts = std::make_unique<Host::Parts>();
  parts->endpoint = choice.endpoint;
  if (!choice.is_host.value_or(true)) co_return Host(std::move(parts));
  const auto deadline = Deadline::after(choice.settings.join_timeout);
  const auto addresses = co_await find_endpoint(executor, choice.endpoint, log, deadline);
  const bool is_told = choice.is_host.has_value();
  if (!is_told && !is_this_machine(addresses)) co_return Host(std::move(parts));
  const auto address = bind_address(choice.endpoint.host, addresses);
  try {
    parts->listen(executor, choice, address, log);
    parts->note = "this node hosts the rendezvous and the store at " + to_string(choice.endpoint);
    if (address == "0.0.0.0") parts->note += ", listening on all of its addresses";
  } catch (const Error&) {
    // Another agent of this machine may be the host; if it is somebody else, joining will tell.
    if (is_told) throw;
  }
  co_return Host(std::move(parts));
}

}  // namespace ddprun::membership
