#include "rendezvous/membership/message_channel.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/store/socket_address.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <array>
#include <cerrno>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kReadBytes = 16 * 1024;
constexpr auto kFlushTimeout = std::chrono::seconds(1);

}  // namespace

struct MessageChannel::State {
  State(const asio::any_io_executor& executor, int fd)
      : socket(executor, is_ipv6(fd) ? tcp::v6() : tcp::v4(), fd),
        local_address(ddprun::local_address(fd)),
        peer_address(ddprun::peer_address(fd)) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  /// Received bytes; empty if the connection has ended, nullopt if none are available.
  std::optional<std::string> read() {
    std::array<char, kReadBytes> buffer;
    const ssize_t count =
        ::recv(socket.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) return std::string(buffer.data(), static_cast<std::size_t>(count));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    end(count == 0 ? "its connection was closed"
                   : "its connection broke: " + std::generic_category().message(errno));
    return std::string();
  }

  /// Sends queued bytes; returns false if some are left.
  bool flush() {
    while (!unsent.empty() && socket.is_open()) {
      const ssize_t sent =
          ::send(socket.native_handle(), unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return false;
      if (sent < 0) {
        end("its connection broke: " + std::generic_category().message(errno));
        return true;
      }
      unsent.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

  void end(const std::string& reason) {
    if (end_reason.empty()) end_reason = reason;
    boost::system::error_code ignored;
    socket.close(ignored);
    unsent.clear();
  }

  tcp::socket socket;
  std::string unsent;
  bool is_flushing = false;
  bool is_closing = false;  ///< nothing more is received
  std::string end_reason;
  std::string local_address;
  std::string peer_address;

  static asio::awaitable<void> flush_rest(std::shared_ptr<State> self) {
    while (self->socket.is_open() && !self->flush()) {
      const auto ready = co_await self->socket.async_wait(tcp::socket::wait_write, kAwait);
      // close() cancels the wait; try once more to send the rest.
      if (std::get<0>(ready) && !self->is_closing) break;
    }
    self->is_flushing = false;
    if (self->is_closing) self->end("it was closed by this side");
  }

  static asio::awaitable<void> flush_and_end(std::shared_ptr<State> self) {
    auto rest = flush_rest(self);
    co_await with_deadline(std::move(rest), Deadline::after(kFlushTimeout));
    self->end("it was closed by this side");
  }
};

MessageChannel::MessageChannel(asio::any_io_executor executor, int fd)
    : state_(std::make_shared<State>(executor, fd)) {}

MessageChannel::~MessageChannel() {
  close();
}

void MessageChannel::send(std::string_view bytes) {
  State& state = *state_;
  if (!state.socket.is_open() || state.is_closing) return;
  if (state.unsent.size() + bytes.size() > kUnsentBytesMax) {
    return state.end("it has not read " + std::to_string(state.unsent.size()) + " bytes (at most " +
                     std::to_string(kUnsentBytesMax) + ")");
  }
  state.unsent.append(bytes);
  if (state.is_flushing || state.flush()) return;
  state.is_flushing = true;
  asio::co_spawn(state.socket.get_executor(), State::flush_rest(state_), asio::detached);
}

asio::awaitable<std::string> MessageChannel::receive() {
  const auto state = state_;
  while (state->socket.is_open() && !state->is_closing) {
    // Most connections are idle: allocate a buffer only for available bytes.
    const auto ready = co_await state->socket.async_wait(tcp::socket::wait_read, kAwait);
    if (!state->socket.is_open() || state->is_closing) break;
    if (std::get<0>(ready)) {
      state->end("its connection broke: " + std::get<0>(ready).message());
      break;
    }
    if (auto bytes = state->read()) co_return std::move(*bytes);
  }
  co_return std::string();
}

void MessageChannel::close() {
  State& state = *state_;
  if (!state.socket.is_open() || state.is_closing) return;
  state.is_closing = true;
  if (state.flush()) return state.end("it was closed by this side");
  // Cancels the read; the sending coroutine continues.
  boost::system::error_code ignored;
  state.socket.cancel(ignored);
  asio::co_spawn(state.socket.get_executor(), State::flush_and_end(state_), asio::detached);
}

bool MessageChannel::is_open() const {
  return state_->socket.is_open() && !state_->is_closing;
}

const std::string& MessageChannel::end_reason() const {
  return state_->end_reason;
}

const std::string& MessageChannel::local_address() const {
  return state_->local_address;
}

const std::string& MessageChannel::peer_address() const {
  return state_->peer_address;
}

}  // namespace ddprun::membership
