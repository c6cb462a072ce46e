#include "worker_runtime/backends/host/tcp/silence.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ddprun::tcp {

std::optional<Acknowledgements> acknowledgements(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  return Acknowledgements{.are_awaited = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                          .since_last = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

void remove_time_limit(int fd) {
  const int none = 0;
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
}

bool Silence::is_too_long(const Acknowledgements& now, Clock::time_point time) {
  if (!now.are_awaited) {
    awaited_since_.reset();
    return false;
  }
  if (!awaited_since_) awaited_since_ = time;
  return time - *awaited_since_ >= kSilenceMax && now.since_last >= kSilenceMax;
}

}  // namespace ddprun::tcp
