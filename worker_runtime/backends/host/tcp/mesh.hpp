// The connections of one rank to ranks of other nodes: one for each pair that has something to say
// to each other, made when it first has. The higher rank calls the lower. For the thread that is
// carrying out a collective, unless it says otherwise.
#pragma once

#include "worker_runtime/backends/host/tcp/first_failure.hpp"
#include "worker_runtime/backends/host/tcp/meeting.hpp"
#include "worker_runtime/backends/host/tcp/socket.hpp"
#include <ddprun/deadline.hpp>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

namespace ddprun::tcp {

struct MeshOptions {
  int rank = 0;
  Digest key = {};                 ///< known to the ranks of the group alone
  std::vector<PeerAddress> peers;  ///< by rank; those of this rank's node are not used
};

class Mesh {
 public:
  Mesh(MeshOptions options, Socket listener, FirstFailure& failure);
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return options_.rank; }

  /// Connects those of `peers` that are not yet. All of them must do the same. A rank that cannot
  /// be reached fails the group; returns those that have not come when the deadline passes.
  std::vector<int> connect(const std::vector<int>& peers, Deadline deadline);

  /// The connection to a rank that connect() was called for.
  int fd(int peer) const { return connections_[index(peer)].fd(); }

  /// Sleeps until one of `wanted` is ready, the group fails, or the deadline has passed; false in
  /// that case. Throws if the group has failed.
  bool wait(std::vector<pollfd>& wanted, Deadline deadline);

  /// For a thread that watches all ranks, whether anybody waits for them or not: what to poll for,
  /// and what to do with what is ready, which fails the group if a rank has gone.
  std::vector<pollfd> watched();
  void look_at(std::span<const pollfd> ready);
  /// When to call look_at() at the latest, whatever is ready.
  Deadline next_look();
  /// Tells that thread that something was read: a connection that its other side has closed may
  /// now tell more.
  void note_read() noexcept;
  /// Whether the rank was seen to go on purpose. Any thread.
  bool has_left(int peer);

  /// While it is held the watching thread looks at no connection: who reads what may be a good-bye
  /// notes it before that thread finds nothing behind it.
  using Reading = std::unique_lock<std::mutex>;
  Reading begin_reading() { return Reading(mutex_); }
  void note_left(int peer, const Reading&) { has_left_[index(peer)] = true; }

  /// Fails the group because the connection to `peer` has ended with this errno, 0 for its end.
  [[noreturn]] void lose(int peer, int error);

  /// Ranks from which nothing has come of what is awaited, for other threads to see.
  void note_awaited(std::vector<int> peers);
  std::vector<int> awaited() const;

  /// Tells all ranks that this one goes on purpose, and closes the connections.
  void leave() noexcept;
  /// Cuts the connections, so that all who wait for this rank wake. Any thread.
  void cut() noexcept;

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[noreturn]] void lose(int peer, const std::string& why);
  void keep(int peer, Socket socket);
  int peer_at(int fd);
  void look_at_closing();
  void examine(int peer, int fd);

  MeshOptions options_;
  Socket listener_;
  FirstFailure& failure_;
  PeerMeeting meeting_;
  mutable std::mutex mutex_;  ///< for changes of what follows, and for other threads
  std::vector<Socket> connections_;
  /// Their other side has closed them, but first said what is still to be read: good-bye, perhaps.
  std::vector<bool> is_closing_;
  std::vector<bool> has_left_;
  std::atomic<bool> any_is_closing_ = false;  ///< and has not left
  Socket news_;                               ///< an eventfd, for the thread that watches
  std::vector<int> awaited_;
};

}  // namespace ddprun::tcp
