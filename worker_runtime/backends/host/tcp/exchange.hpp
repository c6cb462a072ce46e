// One step of a collective between nodes: simultaneous sends and receives of a rank. One loop
// advances all of them, so that a blocked send never prevents a receive.
#pragma once

#include "worker_runtime/backends/host/tcp/frame.hpp"
#include "worker_runtime/backends/host/tcp/mesh.hpp"
#include <ddprun/deadline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace ddprun::tcp {

/// Sequence number of the exchange with which ranks join, before the first collective.
inline constexpr std::uint64_t kJoinSequence = ~std::uint64_t{0};

/// Extra time of waits over the network, so that ranks on the late rank's node report first: the
/// late rank may be waiting for another one there.
inline constexpr std::chrono::milliseconds kNetworkGrace{500};

class Exchange {
 public:
  /// `call`: the collective, equal on all ranks; `step`: index of the exchange within it.
  Exchange(Mesh& mesh, FirstFailure& failure, const shared_memory::CallHeader& call,
           std::uint32_t step);

  /// Adds a transfer: at most one send to and one receive from each rank, with matching calls on
  /// the peer. The memory must live until run() returns or throws.
  void send(int peer, const void* data, std::size_t bytes);
  void receive(int peer, void* data, std::size_t bytes);

  /// Performs all sends and receives. Blocks. Calls `on_progress` after data has been received.
  void run(Deadline deadline, const std::function<void()>& on_progress = {});

  /// Number of received bytes of the `number`-th call of receive().
  std::size_t received(std::size_t number) const;

 private:
  struct Flow {
    int peer;
    bool is_send;
    Frame frame;  ///< frame to send, or the received one
    std::byte* data;
    std::size_t bytes;
    int fd = -1;
    std::size_t done = 0;  ///< transferred bytes of frame and data

    bool is_done() const { return done == sizeof frame + bytes; }
  };

  void add(int peer, bool is_send, void* data, std::size_t bytes);
  void connect(Deadline deadline, Deadline limit);
  bool advance(Flow& flow);
  ssize_t read(const Flow& flow, msghdr& message, bool is_frame);
  void check_frame(const Flow& flow);
  void wait(Deadline deadline, Deadline limit);
  [[noreturn]] void time_out(std::vector<int> ranks, bool have_entered, Deadline deadline);

  Mesh& mesh_;
  FirstFailure& failure_;
  Frame frame_;
  std::vector<Flow> flows_;
  std::vector<std::size_t> receives_;  ///< indices in flows_
};

}  // namespace ddprun::tcp
