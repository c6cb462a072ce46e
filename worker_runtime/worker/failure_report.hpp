// Records abnormal termination of this process in the error file: fatal signals, std::terminate,
// and exceptions that reach run_worker. Install it once, in the main thread, since signal handlers
// are process-wide.
#pragma once

#include <ddprun/error.hpp>

#include <exception>
#include <optional>
#include <string>

namespace ddprun::worker {

/// Later failures are recorded in the file at `path`; if it is empty, they are not recorded.
void install_failure_report(const std::string& path);

struct Failure {
  /// "std::runtime_error: no such layer"; without the type for ddprun::Error itself.
  std::string message;
  /// Backtrace at the end of the exception's text, such as LibTorch's; empty if missing.
  std::string backtrace = {};
  std::optional<Errc> code = {};  ///< code of an Error
};

Failure describe(const std::exception_ptr& failure);

/// Writes `failure` to the error file unless another failure was written before. Returns false if
/// there is no error file.
bool report_failure(const Failure& failure) noexcept;

}  // namespace ddprun::worker
