// Detects that the machine of a peer no longer answers. TCP_USER_TIMEOUT would also end the
// connection to a peer that does not read for a while, although its machine answers.
#pragma once

#include <chrono>
#include <optional>

namespace ddprun::tcp {

/// Time without an answer after which a machine is lost. Longer than the lease of the agents, which
/// detect it more reliably, and shorter than the timeout of a collective.
inline constexpr std::chrono::seconds kSilenceMax{15};
/// Interval of checks.
inline constexpr std::chrono::seconds kSilenceCheckInterval{5};

/// State of a connection in the kernel.
struct Acknowledgements {
  bool are_awaited = false;                 ///< of data, or of probes for room
  std::chrono::milliseconds since_last{0};  ///< since the last one

  bool operator==(const Acknowledgements&) const = default;
};

/// Returns nothing if the kernel does not tell.
std::optional<Acknowledgements> acknowledgements(int fd);

/// Removes the kernel's time limit for a new connection, before the first call of Silence.
void remove_time_limit(int fd);

/// One connection.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns true if acknowledgements have been awaited in each call for kSilenceMax, and none has
  /// come. A full window is probed at intervals of up to minutes, so the last acknowledgement alone
  /// does not show that the machine is lost.
  bool is_too_long(const Acknowledgements& now, Clock::time_point time);

 private:
  std::optional<Clock::time_point> awaited_since_;
};

}  // namespace ddprun::tcp
