// Waits until threads and processes can continue only by an action of the caller.
#pragma once

#include <ddprun/deadline.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <unistd.h>

namespace ddprun::test {

/// The kernel's letter for the state of the process or thread with this folder in /proc.
inline char state_letter(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(") ");  // of its name
  return end == std::string::npos ? '\0' : text[end + 2];
}

/// Waits until the process is in that state: 'T' stopped, 'Z' dead and not reaped.
inline void await_state(pid_t process, char letter) {
  const auto limit = Deadline::after(std::chrono::minutes(1));
  while (state_letter("/proc/" + std::to_string(process)) != letter) {
    if (limit.passed()) throw std::runtime_error("a process does not come to the state awaited");
  }
}

/// Waits until several samples show all other threads of this process waiting. A thread that was
/// woken and has not run yet does not count as waiting.
inline void await_threads_at_rest() {
  constexpr int kLooks = 20;
  const auto limit = Deadline::after(std::chrono::minutes(1));
  const std::string own = std::to_string(::gettid());
  const auto are_at_rest = [&] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      if (thread.path().filename() != own && state_letter(thread.path()) != 'S') return false;
    }
    return true;
  };
  for (int looks = 0; looks < kLooks; looks = are_at_rest() ? looks + 1 : 0) {
    if (limit.passed()) throw std::runtime_error("the threads of this process do not rest");
  }
}

}  // namespace ddprun::test
