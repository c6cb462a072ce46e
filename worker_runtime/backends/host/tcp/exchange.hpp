// One step of a collective between nodes: what a rank sends and receives at the same time. All of
// it goes on together in one loop, so no rank that writes can keep another from reading.
#pragma once

#include "worker_runtime/backends/host/tcp/frame.hpp"
#include "worker_runtime/backends/host/tcp/mesh.hpp"
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace ddprun::tcp {

class Exchange {
 public:
  /// `call`: the collective as all ranks must have called it; `step` counts its exchanges.
  Exchange(Mesh& mesh, FirstFailure& failure, const shared_memory::CallHeader& call,
           std::uint32_t step);

  /// At most one send to and one receive from each rank; what one side sends the other must
  /// receive. The memory is used until run() returns or throws.
  void send(int peer, const void* data, std::size_t bytes);
  void receive(int peer, void* data, std::size_t bytes);

  /// Carries all of it out. `on_progress` is called when more has been received.
  void run(Deadline deadline, const std::function<void()>& on_progress = {});

  /// Bytes of the message that have come so far, in the order of the calls of receive().
  std::size_t received(std::size_t number) const;

 private:
  struct Flow {
    int peer;
    bool is_send;
    Frame frame;  ///< to be sent, or what has come in its place
    std::byte* data;
    std::size_t bytes;
    int fd = -1;
    std::size_t done = 0;  ///< bytes of frame and data

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
  std::vector<std::size_t> receives_;  ///< which of flows_
};

}  // namespace ddprun::tcp
