// Records abnormal termination of this process in the error file: fatal signals, std::terminate,
// and exceptions that reach run_worker. To be installed once, by the main thread, since signal
// handlers are process-wide.
#pragma once

#include <ddprun/error.hpp>

#include <exception>
#include <optional>
#include <string>

namespace ddprun::worker {

/// Describes later failures in the file at `path`; nowhere if it is empty.
void install_failure_report(const std::string& path);

struct Failure {
  /// "std::runtime_error: no such layer"; without the type for ddprun::Error itself.
  std::string message;
  /// Backtrace at the end of the exception's text, as of LibTorch; empty if missing.
  std::string backtrace = {};
  std::optional<Errc> code = {};  ///< code of an Error
};

Failure describe(const std::exception_ptr& failure);

/// Writes it to the error file unless a failure has been written before. Returns false if there is
/// no error file.
bool report_failure(const Failure& failure) noexcept;

}  // namespace ddprun::worker
