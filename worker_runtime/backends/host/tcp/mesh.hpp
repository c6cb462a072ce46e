// The connections of one rank to ranks of other nodes. A pair of ranks connects when it first
// exchanges data; the higher rank connects to the lower one. To be called by the thread that runs a
// collective, unless a function says otherwise.
#pragma once

#include "worker_runtime/backends/host/tcp/first_failure.hpp"
#include "worker_runtime/backends/host/tcp/meeting.hpp"
#include "worker_runtime/backends/host/tcp/silence.hpp"
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
  Digest key = {};                 ///< secret of the group's ranks
  std::vector<PeerAddress> peers;  ///< by rank; those of this rank's node are not used
};

class Mesh {
 public:
  Mesh(MeshOptions options, Socket listener, FirstFailure& failure);
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return options_.rank; }

  /// Connects to the ranks of `peers` that are not connected yet; they must do the same. An
  /// unreachable rank fails the group. Returns the ranks that are missing when the deadline passes.
  std::vector<int> connect(const std::vector<int>& peers, Deadline deadline);

  /// Descriptor of the connection to a rank that connect() was called for.
  int fd(int peer) const { return connections_[index(peer)].fd(); }

  /// Blocks until one of `wanted` is ready. Returns false if the deadline passes first. Throws if
  /// the group fails.
  bool wait(std::vector<pollfd>& wanted, Deadline deadline);

  /// For the thread that watches all ranks: the descriptors to poll, and the handler of ready ones,
  /// which fails the group if a rank has died.
  std::vector<pollfd> watched();
  void process(std::span<const pollfd> ready);
  /// Latest time of the next call of process().
  Deadline next_check();
  /// Fails the group if a rank's machine no longer answers. For that thread, every
  /// kSilenceCheckInterval.
  void check_silence();
  /// Wakes that thread after a read: a connection that the peer has closed can be examined again.
  void on_read() noexcept;
  /// Returns true if the rank has left the group in an orderly way. Any thread.
  bool has_left(int peer);

  /// While the lock is held, the watching thread examines no connection. A reader of a possible
  /// leave frame calls note_left() under it, before that thread sees the end of the stream.
  using Reading = std::unique_lock<std::mutex>;
  Reading begin_reading() { return Reading(mutex_); }
  void note_left(int peer, const Reading&) { has_left_[index(peer)] = true; }

  /// Fails the group because the connection to `peer` has failed. `error`: errno; 0 at the end of
  /// the stream.
  [[noreturn]] void lose(int peer, int error);

  /// Ranks whose data is awaited and has not begun to arrive. awaited(): any thread.
  void set_awaited(std::vector<int> peers);
  std::vector<int> awaited() const;

  /// Notifies all ranks that this rank leaves, and closes the connections.
  void leave() noexcept;
  /// Shuts the connections down, which wakes all ranks that wait for this rank. Any thread.
  void cut() noexcept;

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[noreturn]] void lose(int peer, const std::string& why);
  void keep(int peer, Socket socket);
  int peer_at(int fd);
  void examine_closing();
  void examine(int peer, int fd);

  MeshOptions options_;
  Socket listener_;
  FirstFailure& failure_;
  PeerMeeting meeting_;
  mutable std::mutex mutex_;  ///< guards changes of the members below, and reads by other threads
  std::vector<Socket> connections_;
  std::vector<Silence> silences_;
  /// The peer has closed the connection; unread data may end with a leave frame.
  std::vector<bool> is_closing_;
  std::vector<bool> has_left_;
  std::atomic<bool> any_is_closing_ = false;  ///< without a leave frame
  Socket wake_;                               ///< eventfd of the watching thread
  std::vector<int> awaited_;
};

}  // namespace ddprun::tcp
