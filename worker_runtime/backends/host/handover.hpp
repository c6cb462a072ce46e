// How a descriptor gets from a node's first rank to the others there: over a unix socket in the
// abstract name space, which leaves nothing in the file system and vanishes with its owner.
// Blocking; one thread at a time.
#pragma once

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
  ~HandoverServer();

  const std::string& name() const { return name_; }

  /// Gives `descriptor` to ranks `first` to `last`, each of which must come once. Processes of
  /// other users are turned away. Throws Error{Errc::timeout} naming the ranks that did not come.
  void serve(int descriptor, int first, int last, const RankNames& names, Deadline deadline);

 private:
  int listen_fd_;
  std::string name_;
};

/// The other ranks' side: the descriptor, which the caller owns and which is close-on-exec.
int receive_descriptor(const std::string& name, int rank, Deadline deadline);

}  // namespace ddprun::host
