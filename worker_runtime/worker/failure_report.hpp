// Sees to it that whatever ends this process unexpectedly is described in the error file first: a
// fatal signal, std::terminate, an exception that reached run_worker. To be installed once, by the
// main thread; signal handlers are a matter of the whole process, and so is this.
#pragma once

#include <exception>
#include <string>

namespace ddprun::worker {

/// From now on failures are described in the file at `path`; nowhere if it is empty.
void install_failure_report(const std::string& path);

struct Failure {
  /// "std::runtime_error: no such layer"; without the type if that is ddprun::Error itself.
  std::string message;
  /// The stack that the exception's text ends with, as LibTorch's do; empty if there is none.
  std::string backtrace = {};
};

Failure describe(const std::exception_ptr& failure);

/// Writes it to the error file unless something has been written before. False if there is no such
/// file.
bool report_failure(const Failure& failure) noexcept;

}  // namespace ddprun::worker
