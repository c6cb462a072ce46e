// Logs that a process group waits for other ranks, after some seconds: environment variables of
// another run have the same symptom as late workers.
#pragma once

#include <ddprun/process_group.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace ddprun {

class WaitingNotice {
 public:
  /// Covers the wait from now until `deadline` or destruction. A thread of this object calls the
  /// log. Logs nothing in a group of one rank.
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
