#include "rendezvous/membership/connect.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/store/name_lookup.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <ifaddrs.h>

#include <algorithm>
#include <arpa/inet.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <tuple>
#include <unistd.h>

namespace ddprun::membership {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// Timeout of one attempt; the caller retries.
constexpr auto kConnectTimeout = std::chrono::seconds(5);

asio::awaitable<std::optional<NameLookup>> look_up_here(StoreEndpoint endpoint, Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  BackgroundLookup lookup(endpoint);
  asio::posix::stream_descriptor ended(executor, ::fcntl(lookup.fd(), F_DUPFD_CLOEXEC, 0));
  auto wait = [](asio::posix::stream_descriptor& descriptor) -> asio::awaitable<void> {
    co_await descriptor.async_wait(asio::posix::descriptor_base::wait_read, kAwait);
  };
  auto waiting = wait(ended);
  const bool has_ended = co_await with_deadline(std::move(waiting), deadline);
  if (!has_ended) co_return std::nullopt;
  co_return lookup.take();
}

/// Numeric addresses need no lookup.
asio::awaitable<NameLookup> find_addresses(StoreEndpoint endpoint, Deadline deadline) {
  boost::system::error_code is_name;
  asio::ip::make_address(endpoint.host, is_name);
  if (!is_name) co_return look_up(endpoint, deadline);
  auto found = co_await look_up_here(endpoint, deadline);
  if (found) co_return std::move(*found);
  NameLookup late;
  late.problem = "cannot look up " + endpoint.host + ": no answer";
  co_return late;
}

asio::awaitable<boost::system::error_code> connect_socket(tcp::socket& socket,
                                                          tcp::endpoint endpoint) {
  const auto result = co_await socket.async_connect(endpoint, kAwait);
  co_return std::get<0>(result);
}

tcp::endpoint to_endpoint(const addrinfo& address) {
  tcp::endpoint endpoint;
  endpoint.resize(address.ai_addrlen);
  std::copy_n(reinterpret_cast<const char*>(address.ai_addr), address.ai_addrlen,
              reinterpret_cast<char*>(endpoint.data()));
  return endpoint;
}

}  // namespace

asio::awaitable<ConnectResult> connect_to(StoreEndpoint endpoint, Deadline deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const auto found = co_await find_addresses(endpoint, deadline);
  if (!found.problem.empty()) co_return ConnectResult{.problem = found.problem};
  std::string problem = "it has no address";
  for (const addrinfo* address = found.addresses.get(); address != nullptr;
       address = address->ai_next) {
    tcp::socket socket(executor);
    auto connecting = connect_socket(socket, to_endpoint(*address));
    const auto limit =
        Deadline::after(std::min<Deadline::Duration>(kConnectTimeout, deadline.remaining()));
    const auto error = co_await with_deadline(std::move(connecting), limit);
    if (!error || *error == asio::error::operation_aborted) {
      problem = "no answer";
    } else if (*error) {
      problem = error->message();
    } else {
      socket.non_blocking(true);
      co_return ConnectResult{.fd = socket.release(), .problem = {}};
    }
  }
  co_return ConnectResult{.problem = "cannot connect to " + to_string(endpoint) + ": " + problem};
}

asio::awaitable<HostAddresses> addresses_of(std::string host, Deadline deadline) {
  const StoreEndpoint endpoint{.host = host, .port = 0};
  const auto found = co_await find_addresses(endpoint, deadline);
  HostAddresses result{.addresses = {}, .problem = found.problem};
  for (const addrinfo* address = found.addresses.get(); address != nullptr;
       address = address->ai_next) {
    result.addresses.push_back(to_endpoint(*address).address().to_string());
  }
  co_return result;
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      ::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
    }
    if (text[0] != '\0') addresses.emplace_back(text);
  }
  return addresses;
}

bool is_loopback(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return !error && parsed.is_loopback();
}

}  // namespace ddprun::membership
