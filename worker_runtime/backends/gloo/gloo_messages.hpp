// Point-to-point messages over Gloo. A Gloo send completes when the receiver has requested the
// message; a ProcessGroup send must complete when it is copied, so that two ranks may both send
// first. Therefore messages are copied and kept until Gloo has sent them.
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
  /// `context` must outlive this object.
  GlooMessages(gloo::Context& context, int rank) : context_(context), rank_(rank) {}

  void send(Buffer buffer, int to, int tag, Deadline deadline);
  void receive(Buffer buffer, int from, int tag, Deadline deadline);

  /// Waits until all messages have been sent. Throws Gloo's exception if a receiver has ended.
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
  std::map<int, std::deque<Sent>> under_way_;      ///< messages by receiver, oldest first
  std::map<int, std::deque<Bytes>> to_this_rank_;  ///< messages by tag
};

}  // namespace ddprun
