// A store on a thread of its own, for a process that is no agent. The thread that makes it ends it.
#pragma once

#include <ddprun/store.hpp>

#include <memory>

namespace ddprun {

class StoreThread {
 public:
  /// Serves at 127.0.0.1, at a port that the kernel chooses. Throws Error{Errc::system}.
  StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;
  /// Closes all connections; blocks until the thread has ended, which nothing holds up.
  ~StoreThread();

  const StoreEndpoint& endpoint() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
