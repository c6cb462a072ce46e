// Returns freed memory to the operating system; otherwise the C library keeps it, and an agent
// stays at its peak size. Runs on the executor's single thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>

namespace ddprun {

class MemoryReturn {
 public:
  explicit MemoryReturn(const boost::asio::any_io_executor& executor);

  /// Records how many bytes are in use. A second after they have fallen well below their peak,
  /// freed memory is returned; at most once a second, as that takes some ms.
  void note(std::size_t bytes_in_use);

  /// Cancels a pending return.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with the timer's handler
};

}  // namespace ddprun
