// Establishes connections between ranks: outgoing ones of this rank, and incoming ones, which must
// authenticate as ranks of the group. Nothing blocks.
#pragma once

#include "worker_runtime/backends/host/tcp/hello.hpp"
#include "worker_runtime/backends/host/tcp/socket.hpp"
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tcp {

/// Maximum number of unauthenticated incoming connections. A new one replaces one that sends
/// nothing; a rank whose connection is closed connects again.
inline constexpr std::size_t kUnauthenticatedMax = 64;

Deadline earlier(Deadline a, Deadline b);

class PeerMeeting {
 public:
  /// `key` is the secret of the group's ranks. `peers` must outlive this object.
  PeerMeeting(int rank, const Digest& key, const std::vector<PeerAddress>& peers, int listener);

  /// Starts to connect to `peer`.
  void call(int peer);

  /// Descriptors to poll, and the latest time of the next call of proceed().
  std::vector<pollfd> wanted() const;
  Deadline next_timeout() const;

  /// Processes ready descriptors.
  void proceed(std::span<const pollfd> ready);

  /// Returns new authenticated connections with their ranks.
  std::vector<std::pair<int, Socket>> take() { return std::exchange(done_, {}); }

  struct Unreachable {
    int peer;
    std::string why;
  };
  const std::vector<Unreachable>& unreachable() const { return unreachable_; }

 private:
  /// An outgoing connection.
  struct Outgoing {
    int peer = -1;
    std::size_t address = 0;  ///< index of the current address
    Socket socket;
    bool is_connected = false;
    Hello hello;
    Answer answer;
    std::size_t received = 0;  ///< bytes of `answer`
    int unanswered = 0;        ///< number of connections to this address that the listener closed
    std::optional<Deadline> next_attempt =
        {};  ///< time of the next attempt at this address; set only without a socket
    std::string problems = {};  ///< errors of earlier addresses
  };
  /// An incoming connection that has not authenticated.
  struct UnauthenticatedPeer {
    Socket socket;
    Deadline deadline;
    Deadline
        hello_deadline;  ///< time after which a new connection may replace a peer without hello
    Hello hello = {};
    std::size_t hello_bytes = 0;  ///< bytes of `hello` received
    Hello answer = {};            ///< answer, sent after the hello has arrived
    Digest proof = {};
    std::size_t proof_bytes = 0;  ///< bytes of `proof` received
  };

  void try_address(Outgoing& call);
  void give_up_address(Outgoing& call, const std::string& why);
  bool retry(Outgoing& call);
  bool advance(Outgoing& call);
  bool advance(UnauthenticatedPeer& peer);
  bool answer(UnauthenticatedPeer& peer);
  void accept_peers();
  bool has_room() const;
  bool drop_one_without_hello();

  int rank_;
  Digest key_;
  const std::vector<PeerAddress>& peers_;
  int listener_;
  std::vector<Outgoing> calls_;
  std::vector<UnauthenticatedPeer> unauthenticated_;
  std::vector<std::pair<int, Socket>> done_;
  std::vector<Unreachable> unreachable_;
};

}  // namespace ddprun::tcp
