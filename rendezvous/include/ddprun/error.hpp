// The one exception type of the project, for failures that the caller is not expected to branch on.
// Expected outcomes (a deadline passed, a key absent, a worker's exit) are return values instead.
// Any thread may use it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun {

/// What kind of failure an Error is; decides the exit code of a program that ends with it.
enum class Errc {
  usage,     ///< the caller or the operator asked for something that makes no sense
  system,    ///< the operating system refused
  network,   ///< a connection could not be made or broke
  protocol,  ///< a peer sent bytes that are not the protocol
  timeout,   ///< a deadline passed
  closed,    ///< the thing was shut down while it was used
  remote,    ///< another worker failed; see PeerFailed
  cuda,      ///< a CUDA call failed
  nccl,      ///< an NCCL call failed
  internal,  ///< a mistake in ddprun
};

/// The name of `code` as it stands in logs and events, e.g. "timeout".
const char* to_string(Errc code) noexcept;

/// Returns the code with this name; nullopt if there is no such code.
std::optional<Errc> errc_named(std::string_view name) noexcept;

/// A failure, with a message written for the operator: the thing, what happened, the limit or a
/// hint.
class Error : public std::runtime_error {
 public:
  /// `error_number` is an errno value, for Errc::system; 0 is none.
  Error(Errc code, const std::string& message, int error_number = 0)
      : std::runtime_error(message), code_(code), error_number_(error_number) {}

  /// The kind of failure.
  Errc code() const noexcept { return code_; }

  /// Returns the errno value behind an Errc::system error; 0 for others.
  int error_number() const noexcept { return error_number_; }

 private:
  Errc code_;
  int error_number_;
};

/// Throws Error{Errc::system} with `error_number` (an errno value) and a message of `what` and the
/// text of that number.
[[noreturn]] void throw_system_error(const std::string& what, int error_number);

}  // namespace ddprun
