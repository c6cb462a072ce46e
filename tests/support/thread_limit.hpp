// Makes thread starts of a program fail.
#pragma once

namespace ddprun::test {

/// During its lifetime this thread can start `threads` more; then std::thread throws.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();
};

}  // namespace ddprun::test
