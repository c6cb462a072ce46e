// Lets the system refuse a program its next threads.
#pragma once

namespace ddprun::test {

/// While it lives, this thread can start `threads` more: then std::thread throws.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();
};

}  // namespace ddprun::test
