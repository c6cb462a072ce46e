// A store on its own thread, for processes other than agents. Construct and destroy it on the same
// thread.
#pragma once

#include <ddprun/store.hpp>

#include <memory>

namespace ddprun {

class StoreThread {
 public:
  /// Serves on 127.0.0.1 at a port chosen by the kernel. Throws Error{Errc::system}.
  StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;
  /// Closes all connections and joins the thread.
  ~StoreThread();

  const StoreEndpoint& endpoint() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
