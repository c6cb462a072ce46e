// Point-to-point messages over MPI. MPI's send may wait for the receiver, but a send of
// ProcessGroup completes when the message has been copied. So messages are copied and kept until
// MPI has sent them.
#pragma once

#include <ddprun/buffer.hpp>

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace ddprun::mpi {

class Messages {
 public:
  explicit Messages(MPI_Comm communicator);

  void send(Buffer buffer, int to, int tag);
  void receive(Buffer buffer, int from, int tag);

  /// Waits until all messages have been sent.
  void flush();

 private:
  struct Sent {
    std::vector<std::uint8_t> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void check_tag(int tag) const;

  MPI_Comm communicator_;
  int tag_max_ = 0;
  std::map<int, std::deque<Sent>> under_way_;  ///< messages by receiver, oldest first
};

}  // namespace ddprun::mpi
