// Point-to-point messages over Gloo. Its sends end when the receiver has asked for the message;
// ProcessGroup's end when it has been copied, so that two ranks may send to each other first. So
// messages are copied here, and kept until Gloo is done with them.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace ddprun {

class GlooMessages {
 public:
  /// `context` outlives this object.
  GlooMessages(gloo::Context& context, int rank) : context_(context), rank_(rank) {}

  void send(Buffer buffer, int to, int tag, Deadline deadline);
  void receive(Buffer buffer, int from, int tag, Deadline deadline);

  /// Waits until all has been sent. Throws what Gloo says if a receiver has gone.
  void flush(Deadline deadline);

 private:
  using Bytes = std::vector<std::uint8_t>;
  struct Sent {
    Bytes bytes;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };

  void wait_for_oldest(std::deque<Sent>& sent, Deadline deadline);

  gloo::Context& context_;
  const int rank_;
  std::map<int, std::deque<Sent>> under_way_;      ///< by receiver, oldest first
  std::map<int, std::deque<Bytes>> to_this_rank_;  ///< by tag
};

}  // namespace ddprun
