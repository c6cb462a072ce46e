#include "rendezvous/store/socket_address.hpp"

#include <netdb.h>

#include <array>
#include <string_view>
#include <sys/socket.h>

namespace ddprun {

namespace {

using AddressOf = int (*)(int, sockaddr*, socklen_t*);

std::string numeric(int fd, AddressOf address_of) {
  constexpr std::string_view kMapped = "::ffff:";
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> text{};
  if (address_of(fd, generic, &length) != 0 ||
      ::getnameinfo(generic, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  std::string_view name = text.data();
  const bool is_mapped = name.starts_with(kMapped) && name.find('.') != std::string_view::npos;
  if (is_mapped) name.remove_prefix(kMapped.size());
  return std::string(name);
}

}  // namespace

std::string local_address(int fd) {
  return numeric(fd, &::getsockname);
}

std::string peer_address(int fd) {
  return numeric(fd, &::getpeername);
}

bool is_ipv6(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         address.ss_family == AF_INET6;
}

}  // namespace ddprun
