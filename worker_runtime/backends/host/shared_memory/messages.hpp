// send and recv through shared memory. A send copies the message into the sender's arena and
// completes. The receiver copies it out and releases it; the sender's next send frees the memory.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/shared_memory/arena.hpp"
#include "worker_runtime/backends/host/shared_memory/region.hpp"
#include "worker_runtime/backends/host/shared_memory/sync.hpp"

#include <deque>
#include <string>
#include <vector>

namespace ddprun::shared_memory {

/// Maximum number of messages of one sender that may precede the one that a recv waits for.
inline constexpr std::size_t kEarlyMessagesMax = 1024;

class Messages {
 public:
  Messages(const Region& region, Arena& arena, const Sync& sync, int rank);

  void send(const Operation& operation, Deadline deadline);
  void recv(const Operation& operation, Deadline deadline);

 private:
  struct Outstanding {
    Parcel* parcel;
    int to;
  };

  std::string describe(const Operation& operation) const;
  Parcel* make_parcel(const Operation& operation, Deadline deadline);
  void free_released();
  Envelope next_envelope(const Operation& operation, Deadline deadline);
  [[noreturn]] void time_out(const Operation& operation, const std::string& what,
                             Deadline deadline) const;

  const Region& region_;
  Arena& arena_;
  const Sync& sync_;
  int rank_;
  std::deque<Outstanding> outstanding_;
  std::vector<std::deque<Envelope>> early_;  ///< early messages by sender
};

}  // namespace ddprun::shared_memory
