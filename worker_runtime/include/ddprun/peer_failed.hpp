// Error thrown by collectives that cannot complete because another rank failed.
#pragma once

#include <ddprun/error.hpp>

#include <string>
#include <utility>

namespace ddprun {

/// A collective failed because another rank failed. Every later call of the group throws it, too.
class PeerFailed : public Error {
 public:
  /// `call` and `round` are the values that call() and round() return.
  PeerFailed(int rank, const std::string& message, std::string call = {}, int round = -1)
      : Error(Errc::remote, message), rank_(rank), call_(std::move(call)), round_(round) {}

  /// Returns the failed rank among all workers; -1 if unknown.
  int rank() const noexcept { return rank_; }

  /// Returns the failed call, such as "all_reduce(100 x float32, sum)". The message also contains
  /// it.
  const std::string& call() const noexcept { return call_; }

  /// Returns the round of the call; -1 if there is no agent.
  int round() const noexcept { return round_; }

 private:
  int rank_;
  std::string call_;
  int round_;
};

}  // namespace ddprun
