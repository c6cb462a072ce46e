// Gives memory back to the operating system after much of it has been freed: the C library keeps it
// otherwise, and an agent would stay as large as an attack or a leak of its workers has made it.
// Runs on the executor's one thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>

namespace ddprun {

class MemoryReturn {
 public:
  explicit MemoryReturn(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// So many bytes are in use now. If that is much less than it was, memory is given back a second
  /// after the last call that said so.
  void note(std::size_t bytes_in_use);

  /// Nothing is given back any more.
  void stop() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
  std::size_t peak_bytes_ = 0;  ///< since much was freed last
};

}  // namespace ddprun
