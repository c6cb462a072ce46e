// A search among processes that may block, for example on the memory map of a process that hangs in
// the kernel. Runs on the agent's thread; the search has a separate thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <memory>
#include <sys/types.h>
#include <vector>

namespace ddprun {

class BackgroundSearch {
 public:
  using Pids = std::vector<pid_t>;

  /// Starts `search` and calls `on_end` on the executor with its result, or with an empty vector if
  /// it throws. `on_end` may destroy this object. `search` must own its data: if this object is
  /// destroyed first, it continues and `on_end` is not called. Throws a std::exception if the
  /// search cannot be started.
  BackgroundSearch(const boost::asio::any_io_executor& executor, std::function<Pids()> search,
                   std::function<void(Pids)> on_end);

 private:
  struct Result;
  std::shared_ptr<Result> result_;
  std::function<void(Pids)> on_end_;
  std::shared_ptr<const bool> owner_ = std::make_shared<const bool>(true);  ///< expires with this
  boost::asio::posix::stream_descriptor end_;  ///< readable once the search has ended
};

}  // namespace ddprun
