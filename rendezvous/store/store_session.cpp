#include "rendezvous/store/store_session.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/store/socket_address.hpp"

#include <cerrno>
#include <sys/socket.h>

namespace ddprun {

namespace {

using boost::asio::ip::tcp;

/// Capacity that an empty buffer of replies keeps: enough for the usual ones, and little for each
/// of thousands of connections.
constexpr std::size_t kKeptReplyBytes = 4096;

}  // namespace

StoreSession::StoreSession(const boost::asio::any_io_executor& executor, int fd, ClientId client)
    : socket(executor, is_ipv6(fd) ? tcp::v6() : tcp::v4(), fd), id(client) {}

std::size_t StoreSession::held_bytes() const {
  return parser.held_bytes() + (deferred ? parser.finished_bytes() : 0) + rest.size() +
         (unread_bytes() > 0 ? replies.capacity() : 0);
}

void StoreSession::close() {
  boost::system::error_code ignored;
  socket.close(ignored);
  parser = {};
  replies = rest = opening = {};
  taken_bytes = 0;
  deferred.reset();
}

bool StoreSession::send_replies() {
  const ssize_t sent = ::send(socket.native_handle(), replies.data() + taken_bytes, unread_bytes(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  taken_bytes += static_cast<std::size_t>(sent);
  if (unread_bytes() > 0) return true;
  if (replies.capacity() > kKeptReplyBytes) replies = std::string();
  replies.clear();
  taken_bytes = 0;
  return true;
}

std::string StoreSession::describe_peer() const {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return "a client";
  return "client " + to_string({.host = peer.address().to_string(), .port = peer.port()});
}

}  // namespace ddprun
