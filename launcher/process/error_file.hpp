// What a worker wrote into its error file (TORCHELASTIC_ERROR_FILE) before it ended: JSON as
// torchelastic's decorator and this project's runtime write it.
#pragma once

#include "rendezvous/base/held_path.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// A worker may write anything: more than this is not read. Far above what any traceback takes.
inline constexpr std::size_t kErrorFileBytesMax = 1U << 20;

/// JSON nested deeper than this is taken as text. Far above the depth of what is read, which is 3.
inline constexpr int kErrorFileNestingMax = 64;

/// What is kept of a message and of a traceback: some hundred lines. More would drown the report,
/// and there may be a thousand workers. A message loses its end, a traceback its beginning.
inline constexpr std::size_t kErrorMessageBytesMax = 8U << 10;
inline constexpr std::size_t kErrorTracebackBytesMax = 32U << 10;

struct ErrorReport {
  std::string message;    ///< one line or more; empty if there is none
  std::string traceback;  ///< or empty
  /// When the worker recorded it, if the file says so.
  std::optional<std::chrono::system_clock::time_point> when{};

  bool operator==(const ErrorReport&) const = default;
};

/// Takes {"message": {"message": M, "extraInfo": {"py_callstack": T, "timestamp": "SECONDS"}}} and
/// {"message": M, "timestamp": SECONDS}. Any other text is taken as the message, as
/// printable() shows it.
ErrorReport parse_error_report(std::string_view text);

/// The report in `file`; an empty one if it does not exist or cannot be read. Does not follow
/// links or wait for a writer, and reads only regular files with one link that belong to the user
/// of this process, or to any user if that is root.
ErrorReport read_error_report(const HeldPath& file);

}  // namespace ddprun
