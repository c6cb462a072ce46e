// Ends waits in poll(2) as Sync ends those on futexes: at once when a rank of this node dies, when
// the group fails and when the agent ends the attempt. Futexes cannot be polled, so a thread that
// does nothing else sleeps on them and tells of its waking by a descriptor.
#pragma once

#include "worker_runtime/backends/host/shared_memory/sync.hpp"

#include <thread>

namespace ddprun::tcp {

class Alarm {
 public:
  explicit Alarm(const shared_memory::Sync& sync);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();

  /// Readable, and so it stays, once there is something to look at with Sync::check_all().
  int fd() const { return fd_; }

 private:
  const shared_memory::Sync& sync_;
  shared_memory::Word stop_{0};
  int fd_;
  std::thread thread_;
};

}  // namespace ddprun::tcp
