// Passes a descriptor from the first rank of a node to the others, over a unix socket in the
// abstract namespace, which has no file and ends with its owner. Blocking; one thread at a time.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_runtime/backends/rank_names.hpp"
#include <ddprun/deadline.hpp>

#include <string>

namespace ddprun::host {

/// The first rank's side.
class HandoverServer {
 public:
  /// Listens under a random name.
  HandoverServer();
  HandoverServer(const HandoverServer&) = delete;
  HandoverServer& operator=(const HandoverServer&) = delete;

  const std::string& name() const { return name_; }

  /// Sends `descriptor` to ranks `first` to `last`, each of which must connect once. Rejects
  /// processes of other users. Throws Error{Errc::timeout} with the missing ranks.
  void serve(int descriptor, int first, int last, const RankNames& names, Deadline deadline);

 private:
  UniqueFd listener_;
  std::string name_;
};

/// The other ranks' side. Returns the descriptor, close-on-exec, owned by the caller. Throws
/// Error{Errc::timeout} if the first rank does not answer.
int receive_descriptor(const std::string& name, int rank, Deadline deadline);

}  // namespace ddprun::host
