// Interrupts poll(2) on the events that end Sync's waits on futexes: a rank of this node dies, the
// group fails, or the agent ends the attempt. Futexes cannot be polled, so a thread waits
// on them and signals a descriptor.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_runtime/backends/host/shared_memory/sync.hpp"

#include <thread>

namespace ddprun::tcp {

class Alarm {
 public:
  explicit Alarm(const shared_memory::Sync& sync);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();

  /// Descriptor that becomes and stays readable when Sync::check_all() may throw.
  int fd() const { return fd_.get(); }

 private:
  const shared_memory::Sync& sync_;
  shared_memory::Word stop_{0};
  UniqueFd fd_;
  std::thread thread_;
};

}  // namespace ddprun::tcp
