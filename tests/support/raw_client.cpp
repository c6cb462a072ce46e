#include "tests/support/raw_client.hpp"

#include <ddprun/deadline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ddprun::test {

namespace {

constexpr int kAllowedMilliseconds = 20'000;

}  // namespace

RawClient::RawClient(const StoreEndpoint& endpoint)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  REQUIRE(::inet_pton(AF_INET, endpoint.host.c_str(), &address.sin_addr) == 1);
  REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

RawClient::RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawClient::~RawClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::size_t RawClient::send_some(std::string_view bytes) const {
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

std::string RawClient::receive(std::size_t count) const {
  std::string bytes(count, '\0');
  std::size_t received = 0;
  while (received < count && wait_readable(kAllowedMilliseconds)) {
    const ssize_t more = ::recv(fd_, bytes.data() + received, count - received, 0);
    if (more <= 0) break;
    received += static_cast<std::size_t>(more);
  }
  bytes.resize(received);
  return bytes;
}

bool RawClient::is_closed_by_server() const {
  char byte = 0;
  return wait_readable(kAllowedMilliseconds) && ::recv(fd_, &byte, 1, 0) <= 0;
}

bool RawClient::is_open_and_silent() const {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

bool RawClient::wait_readable(int milliseconds) const {
  pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, milliseconds) > 0;
}

std::string store_greeting() {
  std::string bytes;
  wire::append_validate(bytes);
  return bytes;
}

std::string store_request(const wire::Request& request) {
  std::string bytes;
  wire::append_request(bytes, request, wire::Dialect::modern);
  return bytes;
}

}  // namespace ddprun::test
