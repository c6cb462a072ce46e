#include "tests/support/chaos_proxy.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <list>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace ddprun::test {

namespace {

using Clock = std::chrono::steady_clock;

/// Maximum number of bytes pending in one direction; then the sender blocks.
constexpr std::size_t kPiecesMax = 4096;

sockaddr_in to_address(const std::string& address, int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  result.sin_addr.s_addr = ::inet_addr(address.c_str());
  return result;
}

struct Piece {
  Clock::time_point due;
  std::string bytes;
};

/// Data flowing from one socket to another.
struct Direction {
  int from = -1;
  int to = -1;
  bool is_to_target = false;
  std::deque<Piece> pieces{};
  Clock::time_point last_due{};
  bool has_ended = false;  ///< end of input reached

  bool is_stalled(Fault fault) const {
    return fault == Fault::stall || (is_to_target && fault == Fault::stall_to) ||
           (!is_to_target && fault == Fault::stall_from);
  }
};

struct Pair {
  Direction up, down;
  bool is_broken = false;

  bool is_over() const {
    return is_broken ||
           (up.has_ended && up.pieces.empty() && down.has_ended && down.pieces.empty());
  }
};

}  // namespace

class ChaosProxy::Loop {
 public:
  Loop(ChaosProxy& proxy, sockaddr_in target) : proxy_(proxy), target_(target) {}

  ~Loop() {
    for (auto& pair : pairs_) close(pair, false);
  }

  void run() {
    while (!proxy_.must_stop_) {
      wait();
      std::uint64_t count = 0;
      if (::read(proxy_.wake_, &count, sizeof count) > 0 && proxy_.must_reset_.exchange(false)) {
        for (auto& pair : pairs_) close(pair, true);
        pairs_.clear();
      }
      accept();
      for (auto& pair : pairs_) {
        for (auto* direction : {&pair.up, &pair.down}) move(pair, *direction);
      }
      for (auto& pair : pairs_) {
        if (pair.is_over()) close(pair, false);
      }
      pairs_.remove_if([](const Pair& pair) { return pair.up.from < 0; });
    }
  }

 private:
  void wait() {
    const Fault fault = proxy_.fault_;
    std::vector<pollfd> fds = {{proxy_.wake_, POLLIN, 0}, {proxy_.listener_, POLLIN, 0}};
    auto due = Clock::time_point::max();
    for (const auto& pair : pairs_) {
      for (const auto* direction : {&pair.up, &pair.down}) {
        const bool reads = !direction->has_ended && direction->pieces.size() < kPiecesMax;
        if (reads && !direction->is_stalled(fault)) fds.push_back({direction->from, POLLIN, 0});
        if (direction->pieces.empty() || direction->is_stalled(fault)) continue;
        due = std::min(due, direction->pieces.front().due);
      }
    }
    int limit = -1;
    if (due != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
      limit = std::max(0, static_cast<int>(left.count()));
    }
    ::poll(fds.data(), fds.size(), limit);
  }

  void accept() {
    while (true) {
      const int client = ::accept4(proxy_.listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const auto* generic = reinterpret_cast<const sockaddr*>(&target_);
      if (::connect(server, generic, sizeof target_) != 0) {
        ::close(client);
        ::close(server);
        continue;
      }
      const int on = 1;
      ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ::setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ++proxy_.connections_;
      pairs_.push_back({.up = {.from = client, .to = server, .is_to_target = true},
                        .down = {.from = server, .to = client}});
    }
  }

  void move(Pair& pair, Direction& direction) {
    const Fault fault = proxy_.fault_;
    if (direction.is_stalled(fault) || pair.is_broken) return;
    std::array<char, 4096> part;
    while (!direction.has_ended && direction.pieces.size() < kPiecesMax) {
      const auto count = ::recv(direction.from, part.data(), part.size(), MSG_DONTWAIT);
      if (count < 0 && errno == EAGAIN) break;
      pair.is_broken = pair.is_broken || count < 0;
      direction.has_ended = count <= 0;
      if (count > 0) hold(direction, {part.data(), static_cast<std::size_t>(count)}, fault);
    }
    while (!direction.pieces.empty() && direction.pieces.front().due <= Clock::now()) {
      const auto bytes = std::move(direction.pieces.front().bytes);
      direction.pieces.pop_front();
      // The receivers are programs under test, which read at once.
      if (::send(direction.to, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) pair.is_broken = true;
    }
    if (direction.has_ended && direction.pieces.empty()) ::shutdown(direction.to, SHUT_WR);
  }

  void hold(Direction& direction, const std::string& bytes, Fault fault) {
    const auto now = Clock::now();
    if (fault != Fault::dribble) {
      const auto late = std::chrono::milliseconds(
          fault == Fault::delay ? std::uniform_int_distribution(25, 125)(random_) : 0);
      direction.last_due = std::max(direction.last_due, now + late);
      direction.pieces.push_back({direction.last_due, bytes});
      return;
    }
    for (const char byte : bytes) {
      direction.last_due = std::max(direction.last_due, now) + std::chrono::milliseconds(1);
      direction.pieces.push_back({direction.last_due, std::string(1, byte)});
    }
  }

  static void close(Pair& pair, bool by_reset) {
    for (int* fd : {&pair.up.from, &pair.up.to}) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      if (by_reset) ::setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      if (*fd >= 0) ::close(*fd);
      *fd = -1;
    }
  }

  ChaosProxy& proxy_;
  sockaddr_in target_;
  std::list<Pair> pairs_;
  std::minstd_rand random_{1};
};

ChaosProxy::ChaosProxy(const std::string& address, const std::string& target_address,
                       int target_port)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  auto own = to_address(address, 0);
  socklen_t length = sizeof own;
  auto* generic = reinterpret_cast<sockaddr*>(&own);
  if (::bind(listener_, generic, sizeof own) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, generic, &length) != 0) {
    throw std::runtime_error("the proxy cannot listen at " + address);
  }
  port_ = ntohs(own.sin_port);
  thread_ = std::thread(
      [this, target = to_address(target_address, target_port)] { Loop(*this, target).run(); });
}

ChaosProxy::~ChaosProxy() {
  must_stop_ = true;
  set(Fault::none);
  thread_.join();
  ::close(listener_);
  ::close(wake_);
}

void ChaosProxy::set(Fault fault) {
  fault_ = fault;
  const std::uint64_t one = 1;
  if (::write(wake_, &one, sizeof one) < 0) throw std::runtime_error("the proxy cannot be woken");
}

void ChaosProxy::reset_connections() {
  must_reset_ = true;
  set(fault_);
}

}  // namespace ddprun::test
