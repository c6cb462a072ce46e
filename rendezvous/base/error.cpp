#include "rendezvous/base/error_text.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <system_error>

namespace ddprun {

const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::usage:
      return "usage";
    case Errc::system:
      return "system";
    case Errc::network:
      return "network";
    case Errc::protocol:
      return "protocol";
    case Errc::timeout:
      return "timeout";
    case Errc::closed:
      return "closed";
    case Errc::remote:
      return "remote";
    case Errc::cuda:
      return "cuda";
    case Errc::nccl:
      return "nccl";
    case Errc::internal:
      return "internal";
  }
  return "unknown";
}

std::optional<Errc> errc_named(std::string_view name) noexcept {
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
    if (const auto code = static_cast<Errc>(i); to_string(code) == name) return code;
  }
  return std::nullopt;
}

std::string error_text(int error_number) {
  const auto text = std::generic_category().message(error_number);
  if (error_number == EMFILE) return text + " (see ulimit -n)";
  if (error_number == ENFILE) return text + " (see sysctl fs.file-max)";
  return text;
}

void throw_system_error(const std::string& what, int error_number) {
  throw Error(Errc::system, what + ": " + error_text(error_number), error_number);
}

}  // namespace ddprun
