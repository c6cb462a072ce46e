// A search among processes that may block, for example on the memory map of a process that hangs in
// the kernel. Runs on the agent's thread; the search has a separate thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <mutex>

namespace ddprun {

class BackgroundSearch {
 public:
  /// Starts `search` and calls `on_end` on the executor when it has ended or thrown. `on_end` may
  /// destroy this object. Both share ownership of the data that `search` uses and writes: if this
  /// object is destroyed first, `search` continues and `on_end` is not called. Throws a
  /// std::exception if the search cannot be started.
  BackgroundSearch(const boost::asio::any_io_executor& executor, std::function<void()> search,
                   std::function<void()> on_end);

 private:
  std::shared_ptr<std::mutex> has_ended_;  ///< held by the thread until the search has ended
  std::function<void()> on_end_;
  std::shared_ptr<const bool> owner_ = std::make_shared<const bool>(true);  ///< expires with this
  boost::asio::posix::stream_descriptor end_;  ///< readable once the search has ended
};

}  // namespace ddprun
