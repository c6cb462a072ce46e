#include "rendezvous/etcd/channel.hpp"

#include "rendezvous/base/await.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <sys/socket.h>
#include <utility>

namespace ddprun::etcd {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;

tcp protocol_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

void append(boost::beast::flat_buffer& into, const std::string& bytes) {
  const auto room = into.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(room.data()));
  into.commit(bytes.size());
}

}  // namespace

Channel::Channel(const asio::any_io_executor& executor, int fd,
                 std::unique_ptr<security::TlsSession> session)
    : socket_(executor, protocol_of(fd), fd), session_(std::move(session)) {}

/// Generic error; see problem().
Channel::Error Channel::tls_error() const {
  return session_->problem().empty() ? Error() : Error(asio::error::access_denied);
}

asio::awaitable<Channel::Error> Channel::open() {
  while (session_) {
    const bool is_done = session_->shake_hands();
    // An alert about the server's certificate is sent even if the handshake has failed.
    auto flushing = flush();
    const auto sent = co_await std::move(flushing);
    if (const auto error = tls_error()) co_return error;
    if (sent) co_return sent;
    if (is_done) break;
    auto receiving = receive_sealed();
    const auto received = co_await std::move(receiving);
    if (received) co_return received;
  }
  co_return Error();
}

asio::awaitable<Channel::Error> Channel::send(std::string bytes) {
  if (session_) {
    session_->write(bytes);
    auto flushing = flush();
    const auto sent = co_await std::move(flushing);
    if (sent) {
      // A server that refuses this client sends the reason before it closes the connection.
      auto receiving = receive_sealed();
      co_await std::move(receiving);
      session_->read();
    }
    if (const auto error = tls_error()) co_return error;
    co_return sent;
  }
  const auto written = co_await asio::async_write(socket_, asio::buffer(bytes), kAwait);
  co_return std::get<0>(written);
}

asio::awaitable<Channel::Error> Channel::receive(boost::beast::flat_buffer& into) {
  if (!session_) {
    const auto read = co_await socket_.async_read_some(into.prepare(kReadBytes), kAwait);
    into.commit(std::get<1>(read));
    co_return std::get<0>(read);
  }
  while (true) {
    const auto bytes = session_->read();
    append(into, bytes);
    if (!bytes.empty()) co_return Error();
    if (const auto error = tls_error()) co_return error;
    if (session_->has_ended()) co_return asio::error::eof;
    auto receiving = receive_sealed();
    const auto received = co_await std::move(receiving);
    if (received) co_return received;
  }
}

asio::awaitable<Channel::Error> Channel::flush() {
  const auto bytes = session_->outgoing();
  const auto written = co_await asio::async_write(socket_, asio::buffer(bytes), kAwait);
  co_return std::get<0>(written);
}

asio::awaitable<Channel::Error> Channel::receive_sealed() {
  std::array<char, kReadBytes> bytes;
  const auto read = co_await socket_.async_read_some(asio::buffer(bytes), kAwait);
  session_->feed({bytes.data(), std::get<1>(read)});
  co_return std::get<0>(read);
}

std::string Channel::local_address() const {
  boost::system::error_code unknown;
  const auto local = socket_.local_endpoint(unknown);
  return unknown ? std::string() : local.address().to_string();
}

}  // namespace ddprun::etcd
