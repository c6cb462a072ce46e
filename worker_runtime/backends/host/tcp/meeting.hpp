// How connections between ranks come about: calls that this rank makes, and callers that must prove
// to be ranks of the group before anything is done for them. Nothing blocks.
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

/// Callers that have not proved themselves. One that stays silent gives way to the next ones; if it
/// is a rank, it calls again.
inline constexpr std::size_t kStrangersMax = 64;

Deadline earlier(Deadline a, Deadline b);

class PeerMeeting {
 public:
  /// `key` is known to the ranks of the group alone. `peers` outlives this.
  PeerMeeting(int rank, const Digest& key, const std::vector<PeerAddress>& peers, int listener);

  /// Begins to connect to `peer`.
  void call(int peer);

  /// What to wait for, and until when at the latest to come back.
  std::vector<pollfd> wanted() const;
  Deadline next_timeout() const;

  /// Goes on with what is ready.
  void proceed(std::span<const pollfd> ready);

  /// New connections, on which both sides have proved themselves, and the rank of each.
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
    Hello hello;
    Answer answer;
    std::size_t received = 0;  ///< bytes of `answer`
    int unanswered = 0;        ///< connections to this address that the listener has closed
    std::optional<Deadline> next_attempt = {};  ///< at this address, if there is no socket
    std::string problems = {};                  ///< with the addresses tried before
  };
  /// A caller that has not proved itself.
  struct Stranger {
    Socket socket;
    Deadline deadline;
    Deadline patience;  ///< after which it gives way to others if it has not said hello
    Hello hello = {};
    std::size_t hello_bytes = 0;  ///< received
    Hello answer = {};            ///< sent once the hello is there
    Digest proof = {};
    std::size_t proof_bytes = 0;  ///< received
  };

  void try_address(Outgoing& call);
  void give_up_address(Outgoing& call, const std::string& why);
  bool call_again(Outgoing& call);
  bool advance(Outgoing& call);
  bool advance(Stranger& stranger);
  bool answer(Stranger& stranger);
  void accept_strangers();
  bool has_room() const;
  bool drop_silent();

  int rank_;
  Digest key_;
  const std::vector<PeerAddress>& peers_;
  int listener_;
  std::vector<Outgoing> calls_;
  std::vector<Stranger> strangers_;
  std::vector<std::pair<int, Socket>> done_;
  std::vector<Unreachable> unreachable_;
};

}  // namespace ddprun::tcp
