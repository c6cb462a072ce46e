#include "rendezvous/base/random_bytes.hpp"

#include <ddprun/error.hpp>

#include <cerrno>
#include <sys/random.h>

namespace ddprun {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const auto got = ::getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("random bytes", errno);
    filled += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value / 16];
    text += kDigits[value % 16];
  }
  return text;
}

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of(kDigits) == std::string_view::npos;
}

}  // namespace ddprun
