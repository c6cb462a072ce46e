// What a worker wrote into its error file (TORCHELASTIC_ERROR_FILE) before it ended: JSON as
// torchelastic's decorator and this project's runtime write it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

/// A worker may write anything: more than this is not read.
inline constexpr std::size_t kErrorFileBytesMax = 256U << 10;

struct ErrorReport {
  std::string message;    ///< one line or more; empty if there is none
  std::string traceback;  ///< or empty

  bool operator==(const ErrorReport&) const = default;
};

/// Takes {"message": {"message": M, "extraInfo": {"py_callstack": T}}} and {"message": M}. Any
/// other text is taken as the message as it stands, without bytes that are not printable.
ErrorReport parse_error_report(std::string_view text);

/// The report in `file`; an empty one if it does not exist or cannot be read.
ErrorReport read_error_report(const std::filesystem::path& file);

}  // namespace ddprun
