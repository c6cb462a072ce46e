// The project's only exception type, for failures that callers are not expected to handle case by
// case. Expected outcomes (a passed deadline, a missing key, a worker's exit) are return values.
// Thread-safe.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun {

/// Kinds of failures. The kind determines the exit code of a program that ends with an Error.
enum class Errc {
  usage,     ///< invalid arguments, options or order of calls
  system,    ///< a system call failed
  network,   ///< a connection failed or was lost
  protocol,  ///< a peer sent bytes that violate the protocol
  timeout,   ///< a deadline passed
  closed,    ///< the object has been shut down
  remote,    ///< another worker failed; see PeerFailed
  cuda,      ///< a CUDA call failed
  nccl,      ///< an NCCL call failed
  internal,  ///< a bug in ddprun
};

/// Returns the name of `code` in logs and events, such as "timeout".
const char* to_string(Errc code) noexcept;

/// Returns the code with this name, or nullopt for an unknown name.
std::optional<Errc> errc_named(std::string_view name) noexcept;

/// A failure with a message for the operator: the affected object, the problem, and the limit or a
/// remedy.
class Error : public std::runtime_error {
 public:
  /// `error_number` is an errno value for Errc::system; 0: none.
  Error(Errc code, const std::string& message, int error_number = 0)
      : std::runtime_error(message), code_(code), error_number_(error_number) {}

  /// Returns the kind of failure.
  Errc code() const noexcept { return code_; }

  /// Returns the errno value of an Errc::system error; 0 for other errors.
  int error_number() const noexcept { return error_number_; }

 private:
  Errc code_;
  int error_number_;
};

/// Throws Error{Errc::system} with `error_number`, an errno value, and a message that consists of
/// `what` and the description of that value.
[[noreturn]] void throw_system_error(const std::string& what, int error_number);

}  // namespace ddprun
