#include "rendezvous/store/store_server.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/store/acceptor.hpp"
#include "rendezvous/store/long_turns.hpp"
#include "rendezvous/store/memory_return.hpp"
#include "rendezvous/store/socket_address.hpp"
#include "rendezvous/store/store_table.hpp"
#include "rendezvous/wire/request_parser.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <array>
#include <bit>
#include <cerrno>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>
#include <tuple>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// Nearly every request fits, so one read is all there is; and each connection has a buffer of its
/// own of this size, so it should be small.
constexpr std::size_t kFirstReadBytes = 1024;

/// The rest of a larger one, through a buffer that all share: enough for few calls, and little
/// enough for the others not to wait.
constexpr std::size_t kReadBytes = 64 * 1024;

/// StoreTable::work() that is done as soon as a client asks for it: some 10 us. What is more waits
/// for a long turn, of which there is one at a time, so that others are served in between.
constexpr std::size_t kShortWork = 64;
/// Of a long turn: about a millisecond, unless a single request takes longer.
constexpr std::size_t kLongWork = 4096;

/// Each client's connection. The coroutine that serves it and the server share it: either may be
/// the first to find that it is over.
struct Session {
  Session(const asio::any_io_executor& executor, int fd, ClientId client)
      : socket(executor, is_ipv6(fd) ? tcp::v6() : tcp::v4(), fd), id(client) {}

  tcp::socket socket;
  ClientId id;
  std::array<char, kFirstReadBytes> arriving;
  wire::RequestParser parser;
  std::string replies;                    ///< of which the client has not taken all yet
  std::size_t taken_bytes = 0;            ///< of replies, from the front
  std::size_t counted_bytes = 0;          ///< its part of Impl::session_bytes_
  std::string rest;                       ///< has arrived and waits for a long turn
  std::optional<wire::Request> deferred;  ///< before the rest
  bool has_more = false;                  ///< more may have arrived than was read
  bool is_new = true;                     ///< it may still speak the other protocol
  std::string opening;                    ///< what it has said while that is open

  bool is_open() const { return socket.is_open(); }
  std::size_t unread_bytes() const { return replies.size() - taken_bytes; }
  bool needs_turn() const { return deferred || has_more || !rest.empty(); }
};

std::string describe_peer(const tcp::socket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return "a client";
  return "client " + to_string({.host = peer.address().to_string(), .port = peer.port()});
}

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, StoreServerOptions options)
      : executor_(std::move(executor)),
        options_(std::move(options)),
        table_(options_.limits),
        turns_(executor_),
        memory_(executor_),
        acceptor_(
            executor_, {.host = options_.address, .port = options_.port},
            [this](int fd) { admit(fd); },
            [this](const std::string& what) { warn(counts_.accept_failures, what); }) {}

  const StoreEndpoint& endpoint() const { return acceptor_.endpoint(); }

  void start() { acceptor_.start(); }

  void new_attempt() {
    acceptor_.drop_waiting();
    close_all();
  }

  void stop() {
    memory_.stop();
    acceptor_.close();
    close_all();
  }

  StoreServerStats stats() const {
    StoreServerStats stats = counts_;
    stats.connections = sessions_.size();
    stats.keys = table_.number_of_keys();
    stats.waits = table_.number_of_waits();
    stats.bytes = bytes();
    return stats;
  }

 private:
  using SessionPointer = std::shared_ptr<Session>;

  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, SessionPointer session);

  void admit(int fd);

  void take(Session& session, std::string_view input);
  void hand_over(Session& session);
  void take_turn(Session& session);
  void carry_out(Session& session, std::string_view input, std::size_t work_max);
  void deliver(const std::vector<Delivery>& replies);
  void write_replies();
  void write(Session& session);
  void count_bytes(Session& session);
  std::size_t bytes() const { return table_.bytes() + session_bytes_; }

  void close(Session& session);
  void close_all();
  void close_for(Session& session, std::uint64_t& count, const std::string& why);
  void warn(std::uint64_t& count, const std::string& what);

  asio::any_io_executor executor_;
  StoreServerOptions options_;
  StoreTable table_;
  LongTurns turns_;
  MemoryReturn memory_;
  Acceptor acceptor_;
  std::unordered_map<ClientId, SessionPointer> sessions_;
  std::size_t session_bytes_ = 0;  ///< half-received requests and unread replies
  std::vector<ClientId> replied_;  ///< clients that got a reply since the last write, with repeats
  StoreServerStats counts_;
  std::array<char, kReadBytes> buffer_;  ///< of take_turn()
};

void StoreServer::Impl::admit(int fd) {
  if (sessions_.size() >= options_.limits.connections_max) {
    ::close(fd);
    return warn(counts_.over_connections,
                "refused a connection: there are " + std::to_string(sessions_.size()) +
                    " (at most " + std::to_string(options_.limits.connections_max) + ")");
  }
  if (options_.admits) {
    const auto peer = peer_address(fd);
    if (!options_.admits(peer)) {
      ::close(fd);
      return warn(counts_.strangers,
                  "refused a connection from " + peer + ", where no node of the run is");
    }
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto session = std::make_shared<Session>(executor_, fd, ++counts_.accepted);
  sessions_.emplace(session->id, session);
  asio::co_spawn(executor_, serve(shared_from_this(), std::move(session)), asio::detached);
}

asio::awaitable<void> StoreServer::Impl::serve(std::shared_ptr<Impl> self, SessionPointer session) {
  while (session->is_open()) {
    boost::system::error_code error;
    std::size_t bytes = 0;
    // A client that does not read its replies is not served either.
    const bool is_writing = session->unread_bytes() > 0;
    if (!is_writing && session->needs_turn()) {
      auto waiting = self->turns_.begin();
      const auto turn = co_await std::move(waiting);
      if (session->is_open()) self->take_turn(*session);
      continue;
    }
    if (is_writing) {
      const auto ready = co_await session->socket.async_wait(tcp::socket::wait_write, kAwait);
      std::tie(error) = ready;
    } else {
      const auto buffer = asio::buffer(session->arriving);
      const auto arrived = co_await session->socket.async_read_some(buffer, kAwait);
      std::tie(error, bytes) = arrived;
    }
    if (!session->is_open()) break;
    if (error == asio::error::operation_aborted) continue;  // by write(): there is more to send
    if (error) {
      self->close(*session);
    } else if (is_writing) {
      self->write(*session);
      self->count_bytes(*session);
    } else {
      session->has_more = bytes == kFirstReadBytes;
      self->take(*session, {session->arriving.data(), bytes});
    }
    self->write_replies();
  }
}

/// Nearly always the first byte tells which protocol it is.
void StoreServer::Impl::take(Session& session, std::string_view input) {
  const std::string_view other = options_.other_greeting;
  if (!session.is_new || other.empty()) return carry_out(session, input, kShortWork);
  session.opening.append(input);
  const std::string_view opening = session.opening;
  if (opening.starts_with(other)) return hand_over(session);
  if (other.starts_with(opening)) return;
  session.is_new = false;
  carry_out(session, std::exchange(session.opening, {}), kShortWork);
}

void StoreServer::Impl::hand_over(Session& session) {
  const std::string bytes = std::move(session.opening);
  const int fd = session.socket.release();
  close(session);
  options_.hand_over(fd, bytes);
}

void StoreServer::Impl::take_turn(Session& session) {
  if (session.deferred || !session.rest.empty())
    return carry_out(session, std::exchange(session.rest, {}), kLongWork);
  const ssize_t bytes =
      ::recv(session.socket.native_handle(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  // Otherwise there is nothing, or serve() will find out what is wrong.
  session.has_more = bytes == static_cast<ssize_t>(buffer_.size());
  if (bytes > 0) carry_out(session, {buffer_.data(), static_cast<std::size_t>(bytes)}, kLongWork);
}

/// At least one request in a long turn. What is left waits for the next turn.
void StoreServer::Impl::carry_out(Session& session, std::string_view input, std::size_t work_max) {
  std::size_t work = 0;
  while (auto request = session.deferred ? std::exchange(session.deferred, std::nullopt)
                                         : session.parser.next(input)) {
    const bool must_do = work == 0 && work_max == kLongWork;
    work += table_.work(*request);
    if (work > work_max && !must_do) {
      session.deferred = std::move(request);
      break;
    }
    if (work > work_max) session.deferred = table_.split(*request, work_max);
    const StoreOutcome outcome =
        table_.apply(session.id, std::move(*request), session.parser.dialect());
    deliver(outcome.replies);
    if (!session.is_open()) break;
    if (!outcome.refusal.empty()) {
      close_for(session, counts_.refused, outcome.refusal);
      break;
    }
    if (work > work_max) break;
  }
  write_replies();
  if (!session.is_open()) return;
  session.rest.assign(input);
  if (session.parser.is_malformed()) {
    return close_for(session, counts_.malformed, session.parser.problem());
  }
  count_bytes(session);
  if (bytes() > options_.limits.bytes_max) {
    close_for(session, counts_.refused,
              "the store is full (" + std::to_string(options_.limits.bytes_max) +
                  " bytes at most, half-received requests included)");
  }
}

void StoreServer::Impl::deliver(const std::vector<Delivery>& replies) {
  for (const auto& [client, reply] : replies) {
    const auto found = sessions_.find(client);
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    wire::append_reply(session.replies, reply);
    replied_.push_back(client);
    if (session.unread_bytes() > options_.limits.unread_bytes_max + kReadBytes) {
      close_for(session, counts_.slow_readers,
                "has not read " + std::to_string(session.unread_bytes()) +
                    " bytes of replies (at most " +
                    std::to_string(options_.limits.unread_bytes_max) + ")");
    }
  }
}

/// To whom there are new ones. A connection that turns out to be over may wake others.
void StoreServer::Impl::write_replies() {
  while (!replied_.empty()) {
    for (const ClientId client : std::exchange(replied_, {})) {
      const auto found = sessions_.find(client);
      if (found == sessions_.end()) continue;
      const SessionPointer session = found->second;
      write(*session);
      count_bytes(*session);
    }
  }
}

/// Sends as much as the connection takes now; serve() sends the rest when it takes more.
void StoreServer::Impl::write(Session& session) {
  if (session.unread_bytes() == 0 || !session.is_open()) return;
  const ssize_t sent =
      ::send(session.socket.native_handle(), session.replies.data() + session.taken_bytes,
             session.unread_bytes(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return close(session);
  session.taken_bytes += sent < 0 ? 0 : static_cast<std::size_t>(sent);
  if (session.unread_bytes() == 0) {
    // A large reply's memory is given back, a small one's serves the next.
    if (session.replies.capacity() > kReadBytes) session.replies = std::string();
    session.replies.clear();
    session.taken_bytes = 0;
  } else {
    boost::system::error_code ignored;
    session.socket.cancel(ignored);  // ends the wait for more to read
  }
}

void StoreServer::Impl::count_bytes(Session& session) {
  if (!session.is_open()) return;
  const std::size_t held =
      session.parser.held_bytes() + session.unread_bytes() + session.rest.size();
  session_bytes_ = session_bytes_ - session.counted_bytes + held;
  session.counted_bytes = held;
  memory_.note(bytes());
}

void StoreServer::Impl::close(Session& session) {
  deliver(table_.drop(session.id));
  session_bytes_ -= std::exchange(session.counted_bytes, 0);
  memory_.note(bytes());
  boost::system::error_code ignored;
  session.socket.close(ignored);
  sessions_.erase(session.id);  // last: may end the session's life
}

void StoreServer::Impl::close_all() {
  boost::system::error_code ignored;
  for (const auto& [client, session] : sessions_) session->socket.close(ignored);
  sessions_.clear();
  session_bytes_ = 0;
  table_.clear();
}

void StoreServer::Impl::close_for(Session& session, std::uint64_t& count, const std::string& why) {
  warn(count, describe_peer(session.socket) + " " + why + "; its connection was closed");
  close(session);
}

void StoreServer::Impl::warn(std::uint64_t& count, const std::string& what) {
  // Once for each power of two, so that nobody can fill a disk with them.
  if (!std::has_single_bit(++count)) return;
  const std::string times = count == 1 ? "" : " (number " + std::to_string(count) + " of its kind)";
  write_log(options_.log, LogLevel::warn,
            "store at " + to_string(endpoint()) + ": " + what + times);
}

StoreServer::StoreServer(asio::any_io_executor executor, StoreServerOptions options)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options))) {}

StoreServer::~StoreServer() {
  stop();
}

const StoreEndpoint& StoreServer::endpoint() const {
  return impl_->endpoint();
}

void StoreServer::start() {
  impl_->start();
}

void StoreServer::new_attempt() {
  impl_->new_attempt();
}

void StoreServer::stop() {
  impl_->stop();
}

StoreServerStats StoreServer::stats() const {
  return impl_->stats();
}

}  // namespace ddprun
