// Owns and closes a file descriptor. Thread-compatible.
#pragma once

#include <unistd.h>
#include <utility>

namespace ddprun {

class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Returns the descriptor; -1: none.
  int get() const { return fd_; }

  /// Returns the descriptor and transfers its ownership to the caller.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace ddprun
