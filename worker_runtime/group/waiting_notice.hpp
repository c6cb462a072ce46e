// Tells in the log of a process group that the other ranks are waited for, once that has taken some
// seconds: variables of another run look like a run whose workers are late.
#pragma once

#include <ddprun/process_group.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace ddprun {

class WaitingNotice {
 public:
  /// The wait begins now and ends with `deadline`, or with this object. Nothing is said without
  /// other ranks or a log, which is called by a thread of this object.
  WaitingNotice(const WorkerEnv& env, const GroupOptions& options, Deadline deadline);
  WaitingNotice(const WaitingNotice&) = delete;
  WaitingNotice& operator=(const WaitingNotice&) = delete;
  ~WaitingNotice();

 private:
  void run(const WorkerEnv& env, const GroupOptions& options, Deadline deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ddprun
