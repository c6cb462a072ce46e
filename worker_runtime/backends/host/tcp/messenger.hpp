// send and recv between nodes. A message is copied and the send is done; who carries it on is a
// thread of its own, since the sender may be busy with something else by the time the receiver
// takes it. It has connections of its own, too, so that a long message holds no collective up; they
// come into being when a rank first sends to or receives from another node.
//
// The thread also watches the mesh: a rank that goes fails the group at once on every node that has
// a connection to it, whatever the ranks there are doing, and who waits for it without having one
// is told by those. One thread at a time may call.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/tcp/first_failure.hpp"
#include "worker_runtime/backends/host/tcp/meeting.hpp"
#include "worker_runtime/backends/host/tcp/mesh.hpp"
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

/// Messages to one rank that wait to be sent before send blocks; and so many of one rank are read
/// before somebody wants them.
inline constexpr std::size_t kLettersMax = 32;
/// While a receiver waits for a tag, so many messages with other tags may come before it.
inline constexpr std::size_t kEarlyLettersMax = 1024;

struct MessengerOptions {
  int rank = 0;
  Digest key = {};                 ///< known to the ranks of the group alone
  std::vector<PeerAddress> peers;  ///< by rank
};

class Messenger {
 public:
  Messenger(MessengerOptions options, Socket listener, Mesh& mesh, FirstFailure& failure);
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  ~Messenger() { leave(); }

  /// From here on the thread runs.
  void enter();

  void send(const Operation& operation, Deadline deadline);
  void recv(const Operation& operation, Deadline deadline);

  /// Ends the thread once what was sent is on its way, or nobody has taken it for some seconds.
  void leave() noexcept;

 private:
  struct Heading {
    static constexpr std::uint32_t kMagic = 0x6464'704d;   // "ddpM"
    static constexpr std::uint32_t kLeaves = 0x6464'704c;  // "ddpL": no more will come
    std::uint32_t magic = kMagic;
    std::int32_t tag = 0;
    std::uint64_t elements = 0;
    std::uint64_t type = 0;
  };
  struct Letter {
    Heading heading;
    std::vector<std::byte> bytes = {};
    std::size_t announced = 0;  ///< bytes that will have come
    std::size_t done = 0;       ///< of both, while it is on its way

    bool is_done() const {
      return done >= sizeof heading && done == sizeof heading + std::max(bytes.size(), announced);
    }
  };
  struct Peer {
    Socket socket = {};
    std::deque<Letter> out = {};
    std::deque<Letter> in = {};
    Letter arriving = {};
    bool is_wanted = false;   ///< there shall be a connection
    bool is_called = false;   ///< we have begun to make it
    bool is_awaited = false;  ///< somebody waits for a message from it
    bool has_left = false;
    std::string loss = {};  ///< why nothing can come any more, if it did not leave
  };
  using Lock = std::unique_lock<std::mutex>;

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Lock begin(int rank);
  void wait(Lock& lock, const Operation& operation, Deadline deadline);
  void check_peer(const Operation& operation);
  std::string describe(const Operation& operation) const;

  void serve();
  void carry();
  void say_good_bye();
  bool has_mail() const;
  std::vector<pollfd> wanted();
  void proceed(std::span<const pollfd> ready);
  void notice_leavers();
  void take_connections();
  void advance(Peer& peer, short events);
  void push(Peer& peer);
  void pull(Peer& peer);
  void begin_arriving(Peer& peer);
  static void grow(Peer& peer);

  MessengerOptions options_;
  Socket listener_;
  Mesh& mesh_;
  FirstFailure& failure_;
  int wake_fd_;
  std::thread thread_;

  std::mutex mutex_;  ///< for all that follows
  std::condition_variable changed_;
  PeerMeeting meeting_;
  std::vector<Peer> peers_;
  bool has_failed_ = false;
  bool is_stopping_ = false;
};

}  // namespace ddprun::tcp
