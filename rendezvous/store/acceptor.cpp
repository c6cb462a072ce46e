#include "rendezvous/store/acceptor.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/error_text.hpp"
#include "rendezvous/store/listener.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// Pause after accept4() is refused or fails for lack of descriptors or memory, since no event
/// reports a change.
constexpr auto kPause = std::chrono::milliseconds(100);

/// Maximum connections accepted per turn.
constexpr int kAcceptedMax = 64;

/// Returns true if the error concerns a single connection that broke while it was pending
/// (accept(2)). Other errors persist, so accepting is retried after a pause.
bool is_of_connection(int error) {
  constexpr std::array kErrors = {ECONNABORTED, EINTR,  EPROTO,       ENETDOWN,   ENOPROTOOPT,
                                  EHOSTDOWN,    ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

}  // namespace

struct Acceptor::State {
  State(const asio::any_io_executor& executor, const StoreEndpoint& wanted, Take take_connection,
        OnError handle_error)
      : endpoint(wanted),
        socket(executor),
        take(std::move(take_connection)),
        on_error(std::move(handle_error)) {
    const Listener listener = open_listener(endpoint);
    endpoint.port = listener.port;
    socket.assign(listener.family == AF_INET6 ? tcp::v6() : tcp::v4(), listener.fd);
  }

  int accept_one() {
    return ::accept4(socket.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }

  /// Accepts at most kAcceptedMax connections; the others follow in the next turn. Returns false if
  /// the operating system refuses connections for now.
  bool accept_waiting() {
    for (int i = 0; i < kAcceptedMax && socket.is_open(); ++i) {
      const int fd = accept_one();
      if (fd >= 0) {
        take(fd);
        continue;
      }
      if (errno == EAGAIN) return true;
      if (is_of_connection(errno)) continue;
      on_error("cannot accept a connection: " + error_text(errno) + "; trying again");
      return false;
    }
    return true;
  }

  static asio::awaitable<void> accept_all(std::shared_ptr<State> self) {
    asio::steady_timer pause(self->socket.get_executor());
    while (self->socket.is_open()) {
      co_await self->socket.async_wait(tcp::acceptor::wait_read, kAwait);
      if (!self->socket.is_open()) break;
      if (self->accept_waiting()) continue;
      pause.expires_after(kPause);
      co_await pause.async_wait(kAwait);
    }
  }

  StoreEndpoint endpoint;
  tcp::acceptor socket;
  Take take;
  OnError on_error;
};

Acceptor::Acceptor(const asio::any_io_executor& executor, const StoreEndpoint& endpoint, Take take,
                   OnError on_error)
    : state_(std::make_shared<State>(executor, endpoint, std::move(take), std::move(on_error))) {}

Acceptor::~Acceptor() {
  close();
}

const StoreEndpoint& Acceptor::endpoint() const {
  return state_->endpoint;
}

void Acceptor::start() {
  asio::co_spawn(state_->socket.get_executor(), State::accept_all(state_), asio::detached);
}

void Acceptor::drop_waiting() {
  while (state_->socket.is_open()) {
    const int fd = state_->accept_one();
    if (fd < 0) break;
    ::close(fd);
  }
}

void Acceptor::close() {
  boost::system::error_code ignored;
  state_->socket.close(ignored);
}

}  // namespace ddprun
