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

void throw_system_error(const std::string& what, int error_number) {
  const bool has_no_descriptors = error_number == EMFILE || error_number == ENFILE;
  throw Error(Errc::system,
              what + ": " + std::generic_category().message(error_number) +
                  (has_no_descriptors ? " (see ulimit -n)" : ""),
              error_number);
}

}  // namespace ddprun
