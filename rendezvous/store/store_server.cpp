#include "rendezvous/store/store_server.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/store/acceptor.hpp"
#include "rendezvous/store/long_turns.hpp"
#include "rendezvous/store/memory_return.hpp"
#include "rendezvous/store/request_work.hpp"
#include "rendezvous/store/socket_address.hpp"
#include "rendezvous/store/store_session.hpp"
#include "rendezvous/store/store_table.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <netinet/tcp.h>
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

/// Maximum bytes read on arrival; nearly every request fits.
constexpr std::size_t kFirstReadBytes = 1024;

/// Maximum bytes read in a long turn.
constexpr std::size_t kReadBytes = 64 * 1024;

/// Maximum request_work() that is done on arrival: about 10 us. Longer requests wait for a long
/// turn, which one client has at a time.
constexpr std::size_t kShortWork = 64;
/// Maximum request_work() of a long turn: about 1 ms, unless a single request that cannot be split
/// takes longer.
constexpr std::size_t kLongWork = 4096;

/// Keys of a WAIT, a CHECK or a cancelled wait that are processed before a rest: about 0.5 ms.
constexpr std::size_t kPartKeys = 1024;

/// Time at which requests are performed.
enum class Moment : std::uint8_t {
  arrival,    ///< on arrival: at most kShortWork
  long_turn,  ///< in the client's long turn: at most kLongWork
};

constexpr std::string_view kAdmitAll = "; --rdzv_conf=check_users=0 admits all users";

/// Maximum clients written to per turn: about 1 ms. One SET may wake all clients.
constexpr int kWritesMax = 256;

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
    acceptor_.close();
    close_all();
    memory_.stop();
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
  using SessionPointer = std::shared_ptr<StoreSession>;

  static asio::awaitable<void> serve(std::shared_ptr<Impl> self, SessionPointer session);

  void admit(int fd);
  void refuse(int fd, const LocalUser& user);
  void refuse(int fd, const UnknownUser& user);
  bool admits_address(int fd);

  bool read(StoreSession& session);
  void take(StoreSession& session, std::string_view input);
  void hand_over(StoreSession& session);
  bool apply_part(StoreSession& session);
  void take_turn(StoreSession& session);
  void carry_out(StoreSession& session, std::string_view input, Moment moment);
  void deliver(std::vector<Delivery>&& replies);
  void write_replies();
  void write_later();
  void write(StoreSession& session);
  void count_bytes(StoreSession& session);
  std::size_t bytes() const { return table_.bytes() + session_bytes_; }
  void note_memory() { memory_.note(bytes() + sessions_.size() * StoreSession::kOverheadBytes); }
  bool is_full() const { return bytes() > options_.limits.bytes_max; }

  void close(StoreSession& session);
  void forget(ClientId client);
  static asio::awaitable<void> forget_rest(std::shared_ptr<Impl> self, ClientId client);
  void close_all();
  void close_for(StoreSession& session, std::uint64_t& count, const std::string& why);
  void warn(std::uint64_t& count, const std::string& what);

  asio::any_io_executor executor_;
  StoreServerOptions options_;
  StoreTable table_;
  LongTurns turns_;
  MemoryReturn memory_;
  PeerUsers users_;
  Acceptor acceptor_;
  std::unordered_map<ClientId, SessionPointer> sessions_;
  std::size_t session_bytes_ = 0;  ///< half-received and deferred requests, unread replies
  std::deque<ClientId> replied_;   ///< clients with replies to be written
  bool is_write_posted_ = false;   ///< write_later() will write to them
  StoreServerStats counts_;
  std::array<char, kReadBytes> buffer_;  ///< shared by all connections
};

void StoreServer::Impl::admit(int fd) {
  if (sessions_.size() >= options_.limits.connections_max) {
    ::close(fd);
    return warn(counts_.over_connections,
                "refused a connection: there are " + std::to_string(sessions_.size()) +
                    " (at most " + std::to_string(options_.limits.connections_max) + ")");
  }
  bool is_address_due = static_cast<bool>(options_.admits_address);
  if (options_.admits_user) {
    const PeerUser peer = users_.of(fd);
    const auto* user = std::get_if<LocalUser>(&peer);
    if (const auto* unknown = std::get_if<UnknownUser>(&peer)) return refuse(fd, *unknown);
    if (user != nullptr && !options_.admits_user(user->id)) return refuse(fd, *user);
    if (user != nullptr) is_address_due = false;
  }
  // Addresses of the other protocol's connections are not checked.
  if (is_address_due && options_.other_greeting.empty() && !admits_address(fd)) {
    ::close(fd);
    return;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto session = std::make_shared<StoreSession>(executor_, fd, ++counts_.accepted);
  session->is_address_due = is_address_due && !options_.other_greeting.empty();
  sessions_.emplace(session->id, session);
  auto serving = serve(shared_from_this(), session);
  asio::co_spawn(executor_, std::move(serving),
                 [self = shared_from_this(), session](const std::exception_ptr& failure) {
                   if (failure && session->is_open())
                     self->close_for(*session, self->counts_.refused, "was not served: no memory");
                 });
}

void StoreServer::Impl::refuse(int fd, const LocalUser& user) {
  ::close(fd);
  warn(counts_.unauthorized, "refused a connection of user " + std::to_string(user.id) +
                                 "; no worker of this run runs as that user" +
                                 std::string(kAdmitAll));
}

void StoreServer::Impl::refuse(int fd, const UnknownUser& user) {
  char byte = 0;
  const ssize_t received = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool is_empty = received == 0 || (received < 0 && errno != EAGAIN);
  const auto address = peer_address(fd);
  ::close(fd);
  // Port scans and clients that have given up cause no warning.
  if (is_empty || user.has_left) return;
  warn(counts_.unauthorized, "refused a connection from " + address +
                                 ", whose user is not known (" + user.reason + ")" +
                                 std::string(kAdmitAll));
}

bool StoreServer::Impl::admits_address(int fd) {
  const auto address = peer_address(fd);
  if (options_.admits_address(address)) return true;
  warn(counts_.unauthorized,
       "refused a connection from " + address +
           ", which is not the address of a node of this run; if torchrun runs there, start "
           "that node with ddprun");
  return false;
}

asio::awaitable<void> StoreServer::Impl::serve(std::shared_ptr<Impl> self, SessionPointer session) {
  while (session->is_open()) {
    // A client that does not read its replies is not served.
    const bool is_writing = session->unread_bytes() > 0;
    if (!is_writing && session->needs_turn()) {
      auto waiting = self->turns_.begin();
      auto turn = co_await std::move(waiting);
      while (session->is_open() && self->apply_part(*session)) co_await turn.rest();
      if (session->is_open()) self->take_turn(*session);
      continue;
    }
    const auto ready = co_await session->socket.async_wait(
        is_writing ? tcp::socket::wait_write : tcp::socket::wait_read, kAwait);
    if (!session->is_open()) break;
    if (std::get<0>(ready) == asio::error::operation_aborted) continue;  // by write()
    if (is_writing) {
      self->write(*session);
    } else if (!self->read(*session)) {
      self->close(*session);
    }
    self->write_replies();
  }
}

/// Returns false if the connection has ended.
bool StoreServer::Impl::read(StoreSession& session) {
  const ssize_t bytes =
      ::recv(session.socket.native_handle(), buffer_.data(), kFirstReadBytes, MSG_DONTWAIT);
  if (bytes < 0) return errno == EAGAIN || errno == EINTR;
  session.has_more = bytes == static_cast<ssize_t>(kFirstReadBytes);
  if (bytes > 0) take(session, {buffer_.data(), static_cast<std::size_t>(bytes)});
  return bytes > 0;
}

/// The first byte usually identifies the protocol.
void StoreServer::Impl::take(StoreSession& session, std::string_view input) {
  const std::string_view other = options_.other_greeting;
  if (!session.is_new || other.empty()) return carry_out(session, input, Moment::arrival);
  session.opening.append(input);
  const std::string_view opening = session.opening;
  if (opening.starts_with(other)) return hand_over(session);
  if (other.starts_with(opening)) return;
  session.is_new = false;
  if (session.is_address_due && !admits_address(session.socket.native_handle()))
    return close(session);
  carry_out(session, std::exchange(session.opening, {}), Moment::arrival);
}

void StoreServer::Impl::hand_over(StoreSession& session) {
  const std::string bytes = std::move(session.opening);
  const int fd = session.socket.release();
  close(session);
  options_.hand_over(fd, bytes);
}

/// Performs a part of the deferred request if it adds, checks or removes many keys. Returns false
/// if take_turn() can perform the rest.
bool StoreServer::Impl::apply_part(StoreSession& session) {
  if (!session.deferred ||
      !table_.apply_part(session.id, *session.deferred, session.parser.dialect(), kPartKeys))
    return false;
  note_memory();
  return true;
}

void StoreServer::Impl::take_turn(StoreSession& session) {
  if (session.deferred || !session.rest.empty())
    return carry_out(session, std::exchange(session.rest, {}), Moment::long_turn);
  const ssize_t bytes =
      ::recv(session.socket.native_handle(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  // Otherwise there are no bytes, or serve() will detect the error.
  session.has_more = bytes == static_cast<ssize_t>(buffer_.size());
  if (bytes > 0)
    carry_out(session, {buffer_.data(), static_cast<std::size_t>(bytes)}, Moment::long_turn);
}

/// Performs requests as far as `moment` allows; the others wait for the next turn. Performs a
/// deferred request, or its first part.
void StoreServer::Impl::carry_out(StoreSession& session, std::string_view input, Moment moment) {
  const bool is_long_turn = moment == Moment::long_turn;
  const std::size_t work_max = is_long_turn ? kLongWork : kShortWork;
  std::size_t work = 0;
  while (true) {
    const bool must_do = session.deferred.has_value();
    auto request =
        must_do ? std::exchange(session.deferred, std::nullopt) : session.parser.next(input);
    if (!request) break;
    if (options_.objection_to) {
      if (const auto objection = options_.objection_to(*request))
        return close_for(session, counts_.refused, "was refused: " + *objection);
    }
    work += request_work(table_, session.id, *request, session.parser.dialect(), work_max);
    if (work > work_max && !must_do) {
      session.deferred = std::move(request);
      break;
    }
    if (work > work_max) session.deferred = split_request(table_, *request, work_max);
    StoreOutcome outcome = table_.apply(session.id, std::move(*request), session.parser.dialect());
    deliver(std::move(outcome.replies));
    if (!session.is_open()) break;
    if (!outcome.refusal.empty()) {
      close_for(session, counts_.refused, outcome.refusal);
      break;
    }
    if (work > work_max) break;
  }
  write(session);  // before the replies to other clients
  write_replies();
  if (!session.is_open()) return;
  session.rest.assign(input);
  if (session.parser.is_malformed()) {
    return close_for(session, counts_.malformed, session.parser.problem());
  }
  count_bytes(session);
  if (is_full()) {
    close_for(session, counts_.refused,
              "the store is full (" + std::to_string(options_.limits.bytes_max) +
                  " bytes at most, half-received requests included)");
  }
}

void StoreServer::Impl::deliver(std::vector<Delivery>&& replies) {
  const StoreLimits& limits = options_.limits;
  std::size_t notified_bytes = 0;
  for (auto& [client, reply] : replies) {
    const auto found = sessions_.find(client);
    if (found == sessions_.end()) continue;
    const SessionPointer session = found->second;
    if (const auto* notification = std::get_if<wire::Notification>(&reply)) {
      notified_bytes += notification->bytes();
      if (notified_bytes > limits.unread_bytes_max ||
          bytes() + notification->bytes() > limits.bytes_max) {
        close_for(
            *session, counts_.slow_readers,
            "watches a key whose value, sent to all its watchers, exceeds the limit (at most " +
                std::to_string(limits.unread_bytes_max) + " bytes together)");
        continue;
      }
    }
    wire::append_reply(session->replies, std::move(reply));
    if (!std::exchange(session->is_write_due, true)) replied_.push_back(client);
    count_bytes(*session);
    if (is_full()) write(*session);
    if (!session->is_open()) continue;
    const std::size_t unread = session->unread_bytes();
    if (unread > limits.unread_bytes_max + kReadBytes || (is_full() && unread > 0)) {
      close_for(*session, counts_.slow_readers,
                "has not read " + std::to_string(unread) + " bytes of replies (at most " +
                    std::to_string(limits.unread_bytes_max) + ", and " +
                    std::to_string(limits.bytes_max) + " bytes in the store)");
    }
  }
}

/// Writes to the clients that have replies. A write that finds a connection closed may add others.
void StoreServer::Impl::write_replies() {
  if (is_write_posted_) return;
  for (int i = 0; !replied_.empty(); ++i) {
    if (i == kWritesMax) return write_later();
    const auto found = sessions_.find(replied_.front());
    replied_.pop_front();
    if (found == sessions_.end()) continue;
    const SessionPointer session = found->second;
    session->is_write_due = false;
    write(*session);
  }
}

void StoreServer::Impl::write_later() {
  is_write_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    self->is_write_posted_ = false;
    self->write_replies();
  });
}

/// Sends as much as the socket accepts; serve() sends the rest.
void StoreServer::Impl::write(StoreSession& session) {
  if (session.unread_bytes() == 0 || !session.is_open()) return;
  if (!session.send_replies()) return close(session);
  if (session.unread_bytes() > 0) {
    boost::system::error_code ignored;
    session.socket.cancel(ignored);  // ends the wait for input
  }
  count_bytes(session);
}

void StoreServer::Impl::count_bytes(StoreSession& session) {
  if (!session.is_open()) return;
  session_bytes_ -= session.counted_bytes;
  session.counted_bytes = session.held_bytes();
  session_bytes_ += session.counted_bytes;
  note_memory();
}

void StoreServer::Impl::close(StoreSession& session) {
  forget(session.id);
  session_bytes_ -= std::exchange(session.counted_bytes, 0);
  session.close();
  sessions_.erase(session.id);  // may destroy the session
  note_memory();
}

/// The keys of a client that waits for many, or watches many, are removed in long turns.
void StoreServer::Impl::forget(ClientId client) {
  deliver(table_.drop(client, kShortWork));
  if (table_.has_keys(client))
    asio::co_spawn(executor_, forget_rest(shared_from_this(), client), asio::detached);
}

asio::awaitable<void> StoreServer::Impl::forget_rest(std::shared_ptr<Impl> self, ClientId client) {
  while (self->table_.has_keys(client)) {
    auto waiting = self->turns_.begin();
    const auto turn = co_await std::move(waiting);
    self->deliver(self->table_.drop(client, kLongWork));
    self->write_replies();
    self->note_memory();
  }
}

void StoreServer::Impl::close_all() {
  for (const auto& [client, session] : sessions_) session->close();
  sessions_.clear();
  session_bytes_ = 0;
  table_.clear();
  note_memory();
}

void StoreServer::Impl::close_for(StoreSession& session, std::uint64_t& count,
                                  const std::string& why) {
  warn(count, session.describe_peer() + " " + why + "; its connection was closed");
  close(session);
}

void StoreServer::Impl::warn(std::uint64_t& count, const std::string& what) {
  // Logs at powers of two only, which bounds the size of the log.
  if (!std::has_single_bit(++count)) return;
  const std::string times = count == 1 ? "" : " (" + std::to_string(count) + " times so far)";
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
