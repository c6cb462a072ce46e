// send and recv between nodes. A send completes when the message has been copied. A separate thread
// transfers it, since the sender may be computing when the receiver accepts it. Messages have
// separate connections, so that a long message does not delay collectives. A connection is created
// by the first send to or recv from a rank of another node.
//
// The thread also watches the mesh. When a rank fails, the group fails at once on every node with a
// connection to that rank, and these nodes notify the others. For one thread at a time.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/tcp/first_failure.hpp"
#include "worker_runtime/backends/host/tcp/meeting.hpp"
#include "worker_runtime/backends/host/tcp/mesh.hpp"
#include "worker_runtime/backends/host/tcp/silence.hpp"
#include "worker_runtime/backends/host/tcp/socket.hpp"
#include <ddprun/deadline.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <poll.h>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::tcp {

/// Maximum number of queued messages to a rank, above which send blocks; also the maximum number of
/// messages that are read from a rank before a recv.
inline constexpr std::size_t kQueuedMessagesMax = 32;
/// Maximum number of messages with other tags that may precede the one that a recv waits for.
inline constexpr std::size_t kEarlyMessagesMax = 1024;

struct MessengerOptions {
  int rank = 0;
  Digest key = {};                 ///< secret of the group's ranks
  std::vector<PeerAddress> peers;  ///< addresses by rank
};

class Messenger {
 public:
  Messenger(MessengerOptions options, Socket listener, Mesh& mesh, FirstFailure& failure);
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  ~Messenger() { leave(); }

  /// Starts the thread.
  void enter();

  void send(const Operation& operation, Deadline deadline);
  void recv(const Operation& operation, Deadline deadline);

  /// Ends the thread after all messages have been sent or kDeliveryTimeout has passed. Blocks until
  /// then.
  void leave() noexcept;

 private:
  struct MessageHeader {
    static constexpr std::uint32_t kMagic = 0x6464'704d;   // "ddpM"
    static constexpr std::uint32_t kLeaves = 0x6464'704c;  // "ddpL": the last message
    std::uint32_t magic = kMagic;
    std::int32_t tag = 0;
    std::uint64_t elements = 0;
    std::uint64_t type = 0;
  };
  struct Message {
    MessageHeader header;
    std::vector<std::byte> bytes = {};
    std::size_t expected_bytes = 0;  ///< size of an incoming message
    std::size_t done = 0;            ///< transferred bytes of header and content

    bool is_done() const {
      return done >= sizeof header &&
             done == sizeof header + std::max(bytes.size(), expected_bytes);
    }
  };
  struct Peer {
    Socket socket = {};
    Silence silence = {};
    std::deque<Message> out = {};
    std::deque<Message> in = {};
    Message incoming = {};
    bool is_wanted = false;      ///< a send or recv needs a connection
    bool is_connecting = false;  ///< connecting has begun
    bool is_awaited = false;     ///< a recv waits for it
    bool has_left = false;
    std::string loss_reason =
        {};  ///< reason for the loss of the connection; empty if it is not lost
  };
  using Lock = std::unique_lock<std::mutex>;

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Lock begin(int rank);
  void wait(Lock& lock, const Operation& operation, Deadline deadline);
  void check_peer(const Operation& operation);
  std::string describe(const Operation& operation) const;

  void serve();
  void transfer();
  void send_leave_notices();
  bool has_pending_messages() const;
  std::vector<pollfd> wanted();
  void proceed(std::span<const pollfd> ready);
  void mark_left_peers();
  void check_silence();
  void adopt_connections();
  void advance(Peer& peer, short events);
  void push(Peer& peer);
  void pull(Peer& peer);
  void on_header(Peer& peer);
  static void grow_buffer(Peer& peer);

  MessengerOptions options_;
  Socket listener_;
  Mesh& mesh_;
  FirstFailure& failure_;
  int wake_fd_;
  std::thread thread_;

  std::mutex mutex_;  ///< guards all members below
  std::condition_variable changed_;
  PeerMeeting meeting_;
  std::vector<Peer> peers_;
  bool has_failed_ = false;
  bool is_stopping_ = false;
};

}  // namespace ddprun::tcp
