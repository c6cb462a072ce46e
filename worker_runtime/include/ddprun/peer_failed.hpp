// The error of a collective that cannot end because another rank failed.
#pragma once

#include <ddprun/error.hpp>

#include <string>
#include <utility>

namespace ddprun {

/// Another worker failed, so this collective cannot end. Sticky: every later call of the group
/// throws it again.
class PeerFailed : public Error {
 public:
  /// `call` and `round` as call() and round() return them.
  PeerFailed(int rank, const std::string& message, std::string call = {}, int round = -1)
      : Error(Errc::remote, message), rank_(rank), call_(std::move(call)), round_(round) {}

  /// The rank that failed, among all workers; -1 if unknown.
  int rank() const noexcept { return rank_; }

  /// The call that could not end, "all_reduce(100 x float32, sum)"; the message names it, too.
  const std::string& call() const noexcept { return call_; }

  /// The round in which that was, -1 where no agent counts them.
  int round() const noexcept { return round_; }

 private:
  int rank_;
  std::string call_;
  int round_;
};

}  // namespace ddprun
