#include "rendezvous/store/client_socket.hpp"

#include "rendezvous/store/name_lookup.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

/// Timeout of one attempt; the caller retries.
constexpr Deadline::Duration kConnectTimeout = std::chrono::seconds(5);

}  // namespace

std::string Transfer::describe() const {
  switch (end) {
    case End::done:
      return "done";
    case End::timed_out:
      return "no answer";
    case End::closed_by_peer:
      return "the server closed the connection";
    case End::broken:
      return "the connection broke: " + std::generic_category().message(error_number);
  }
  return "unknown";
}

ClientSocket::ClientSocket(ClientSocket&& other) noexcept {
  *this = std::move(other);
}

ClientSocket& ClientSocket::operator=(ClientSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  return *this;
}

std::string ClientSocket::connect(const StoreEndpoint& endpoint, Deadline deadline) {
  const NameLookup found = look_up(endpoint, deadline);
  if (!found.problem.empty()) {
    close();
    return found.problem;
  }
  return connect(found.addresses.get(), deadline);
}

std::string ClientSocket::connect(const addrinfo* addresses, Deadline deadline) {
  int left = 0;
  for (const auto* address = addresses; address != nullptr; address = address->ai_next) ++left;
  int error = 0;
  for (const auto* address = addresses; address != nullptr; address = address->ai_next) {
    close();
    // A firewall may drop all packets to one of the addresses.
    error = connect_once(*address,
                         Deadline::after(std::min(kConnectTimeout, deadline.remaining() / left--)));
    if (error == 0) return {};
  }
  close();
  return std::generic_category().message(error);
}

/// Returns an errno value; 0 on success.
int ClientSocket::connect_once(const addrinfo& address, Deadline deadline) {
  fd_ = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return errno;
  int error = ::connect(fd_, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    if (!wait_for(POLLOUT, deadline).is_done()) return ETIMEDOUT;
    socklen_t length = sizeof error;
    if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  }
  const int on = 1;
  if (error == 0) ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return error;
}

std::string ClientSocket::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  char text[NI_MAXHOST];
  if (::getsockname(fd_, generic, &length) != 0) throw_system_error("store: own address", errno);
  if (::getnameinfo(generic, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    throw Error(Errc::system, "store: own address: the system has no text for it");
  return text;
}

void ClientSocket::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  begin_ = end_ = 0;
}

Transfer ClientSocket::send(std::string_view bytes, Deadline deadline) {
  while (true) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      return {.end = Transfer::End::broken, .error_number = errno};
    }
    bytes.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    if (bytes.empty()) return {};
    const Transfer writable = wait_for(POLLOUT, deadline);
    if (!writable.is_done()) return writable;
  }
}

Transfer ClientSocket::receive(char* bytes, std::size_t count, Deadline deadline) {
  while (true) {
    const std::size_t taken = std::min(count, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, taken, bytes);
    begin_ += taken;
    bytes += taken;
    count -= taken;
    if (count == 0) return {};
    // The answer is rarely available immediately, so poll before reading.
    const Transfer readable = wait_for(POLLIN, deadline);
    if (!readable.is_done()) return readable;
    const bool is_large = count >= kBufferBytes;
    const ssize_t received =
        ::recv(fd_, is_large ? bytes : buffer_.data(), is_large ? count : kBufferBytes, 0);
    if (received == 0) return {.end = Transfer::End::closed_by_peer, .error_number = 0};
    if (received < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return {.end = Transfer::End::broken, .error_number = errno};
    }
    if (is_large) {
      bytes += received;
      count -= static_cast<std::size_t>(received);
    } else {
      begin_ = 0;
      end_ = static_cast<std::size_t>(received);
    }
  }
}

Transfer ClientSocket::wait_for(short events, Deadline deadline) const {
  while (true) {
    pollfd wanted{.fd = fd_, .events = events, .revents = 0};
    const int ready = ::poll(&wanted, 1, deadline.remaining_poll_milliseconds());
    if (ready > 0) return {};
    if (ready == 0) return {.end = Transfer::End::timed_out, .error_number = 0};
    if (errno != EINTR) return {.end = Transfer::End::broken, .error_number = errno};
  }
}

}  // namespace ddprun
