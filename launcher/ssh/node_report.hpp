// What a machine that was started by ssh says of the nodes for which it answers, itself and those
// below it: their output and what became of them. Values and their bytes, which go up over the
// standard output of the ddprun there; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::ssh {

/// A report of a node that says more is not from ddprun. Output comes in pieces of at most this.
inline constexpr std::size_t kReportBytesMax = 64U << 10;

/// What a shell there may print before ddprun begins, such as the message of the day.
inline constexpr std::size_t kNoiseBytesMax = 64U << 10;

struct NodeReport {
  /// The numbers are those on the wire: do not change them.
  enum class Kind : std::uint8_t {
    standard_output = 1,  ///< `text` is a piece of it
    standard_error = 2,
    started = 3,
    not_started = 4,  ///< `text` says why
    ended = 5,        ///< with `exit_code`
    lost = 6,         ///< nobody knows what became of it; `text` says why
  };
  Kind kind = Kind::standard_output;
  std::uint32_t node = 0;  ///< index in the file
  std::string text{};
  int exit_code = 0;  ///< negative: minus the signal that ended the agent

  bool operator==(const NodeReport&) const = default;
};

std::string encode(const NodeReport& report);

/// Takes bytes as they come.
class ReportReader {
 public:
  /// The reports that are now complete. Bytes before the greeting are noise.
  std::vector<NodeReport> take(std::string_view bytes);

  /// The greeting has come: it is ddprun that speaks.
  bool has_greeting() const { return has_greeting_; }

  /// What came is not what ddprun says; nothing more will be read.
  bool is_broken() const { return is_broken_; }

  /// What came before the greeting, since the last call.
  std::string take_noise();

 private:
  bool find_greeting();
  bool next(NodeReport& report);

  std::string pending_;
  std::string noise_;
  std::size_t noise_bytes_ = 0;
  bool has_greeting_ = false;
  bool is_broken_ = false;
};

}  // namespace ddprun::ssh
