// A small process that cleans up when the agent dies without a chance to do so itself. It waits on
// a pipe whose only writer is the agent: the end of file is the agent's death, however it came.
#pragma once

#include <functional>
#include <sys/types.h>

namespace ddprun {

class Guardian {
 public:
  /// Forks the guardian, which calls `clean_up` if this process dies before its destructor runs. To
  /// be made before the program has other threads. Throws Error{Errc::system}.
  explicit Guardian(const std::function<void()>& clean_up);

  /// Kills and reaps the guardian, which cleans up nothing then.
  ~Guardian();

  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace ddprun
