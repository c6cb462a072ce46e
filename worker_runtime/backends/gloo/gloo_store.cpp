#include "worker_runtime/backends/gloo/gloo_store.hpp"

#include <ddprun/error.hpp>

#include <netdb.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

// Gloo stores some timeouts as int milliseconds.
constexpr auto kTimeoutMax = std::chrono::hours(24 * 7);

/// Queries the routing table: connecting a datagram socket sends nothing.
std::string address_towards(const StoreEndpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const auto port = std::to_string(endpoint.port);
  const int problem = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (problem != 0) {
    throw Error(Errc::network, "host " + endpoint.host + ": " + ::gai_strerror(problem));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    const bool is_known =
        ::connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(fd, address, &length) == 0 &&
        ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(fd);
    if (is_known) return text.data();
  }
  throw_system_error("finding the own address towards " + endpoint.host, errno);
}

}  // namespace

std::chrono::milliseconds gloo_timeout(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::min<Deadline::Duration>(deadline.remaining(), kTimeoutMax));
  return std::max(left, std::chrono::milliseconds(1));
}

GlooStore::GlooStore(ddprun::Store& store, std::string prefix, Deadline deadline)
    : store_(store), prefix_(std::move(prefix)), deadline_(deadline) {}

std::string GlooStore::own_address() const {
  return address_towards(store_.endpoint());
}

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  own_keys_.push_back(key);
  store_.set(whole(key), std::string_view(data.data(), data.size()), deadline_);
}

std::vector<char> GlooStore::get(const std::string& key) {
  const std::string value = store_.get(whole(key), deadline_);
  return {value.begin(), value.end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(whole(key));
  store_.wait(names, deadline_);
}

void GlooStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) {
  wait(keys);
}

void GlooStore::erase_own_keys() {
  for (const auto& key : std::exchange(own_keys_, {})) store_.erase(whole(key), deadline_);
}

}  // namespace ddprun
