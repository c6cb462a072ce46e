// How connections between ranks come about: calls that this rank makes, callers that must say who
// they are before anything is done for them, and who of both is through. Nothing blocks.
#pragma once

#include "worker_runtime/backends/tcp/hello.hpp"
#include "worker_runtime/backends/tcp/socket.hpp"
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <poll.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tcp {

/// Connections that have not said who they are. Those of more wait their turn.
inline constexpr std::size_t kStrangersMax = 64;

Deadline earlier(Deadline a, Deadline b);

class PeerMeeting {
 public:
  PeerMeeting(int rank, std::string token, const std::vector<PeerAddress>& peers, int listener);

  /// Begins to connect to `peer`.
  void call(int peer);

  /// What to wait for, and until when at the latest to come back.
  std::vector<pollfd> wanted() const;
  Deadline next_timeout() const;

  /// Goes on with what is ready.
  void proceed(std::span<const pollfd> ready);

  /// New connections, greeted on both sides, and whose they are.
  std::vector<std::pair<int, Socket>> take() { return std::exchange(done_, {}); }

  struct Unreachable {
    int peer;
    std::string why;
  };
  const std::vector<Unreachable>& unreachable() const { return unreachable_; }

 private:
  /// A call of ours.
  struct Outgoing {
    int peer = -1;
    std::size_t address = 0;  ///< the one that is tried
    Socket socket;
    bool is_connected = false;
    Hello answer;
    std::size_t received = 0;
    std::string problems = {};  ///< with the addresses tried before
  };
  /// Somebody who called.
  struct Stranger {
    Socket socket;
    Deadline deadline;
    Hello hello;
    std::size_t received = 0;
  };

  void try_address(Outgoing& call);
  void give_up_address(Outgoing& call, const std::string& why);
  bool advance(Outgoing& call);
  bool advance(Stranger& stranger);
  void accept_strangers();

  int rank_;
  std::string token_;
  const std::vector<PeerAddress>& peers_;
  int listener_;
  std::vector<Outgoing> calls_;
  std::vector<Stranger> strangers_;
  std::vector<std::pair<int, Socket>> done_;
  std::vector<Unreachable> unreachable_;
};

}  // namespace ddprun::tcp
