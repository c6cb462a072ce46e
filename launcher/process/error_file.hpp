// Reads the file in which a worker has recorded an error (TORCHELASTIC_ERROR_FILE): JSON in the
// format of torchelastic's decorator and of this project's runtime.
#pragma once

#include "rendezvous/base/held_path.hpp"
#include <ddprun/error.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Maximum bytes read, since a worker may write anything; far above the size of any traceback.
inline constexpr std::size_t kErrorFileBytesMax = 1U << 20;

/// Maximum bytes kept of a message and of a traceback: some hundred lines, because the report may
/// cover a thousand workers. A message is cut at its end, a traceback at its beginning.
inline constexpr std::size_t kErrorMessageBytesMax = 8U << 10;
inline constexpr std::size_t kErrorTracebackBytesMax = 32U << 10;

struct ErrorReport {
  std::string message;    ///< may have several lines; empty: none
  std::string traceback;  ///< empty: none
  /// Time of the record, if the file contains it.
  std::optional<std::chrono::system_clock::time_point> when{};
  std::optional<Errc> code{};  ///< code of the Error that ended a worker of this runtime

  bool operator==(const ErrorReport&) const = default;
};

/// Parses {"message": {"message": M, "extraInfo": {"py_callstack": T, "timestamp": "SECONDS",
/// "code": "timeout"}}} and
/// {"message": M, "timestamp": SECONDS}. Other text becomes the message, after printable().
ErrorReport parse_error_report(std::string_view text);

/// Reads the report in `file`; returns an empty one if it does not exist or cannot be read. Does
/// not follow links or wait for a writer. Reads only regular files with one link that belong to the
/// user of this process, or to any user if that is root.
ErrorReport read_error_report(const HeldPath& file);

}  // namespace ddprun
