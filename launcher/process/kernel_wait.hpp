// What a process that SIGKILL has not ended waits for in the kernel, from /proc. Nothing here waits
// for the file system on which that process hangs. Any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Of one thread. Fields that this user may not read are empty.
struct KernelWait {
  char state = '\0';                 ///< as in /proc/PID/stat; '\0': no such process
  std::string system_call{};         ///< e.g. "read"
  std::string file{};                ///< of the descriptor that is its first argument
  std::string function{};            ///< of the kernel, from /proc/PID/wchan
  std::vector<std::string> stack{};  ///< functions of the kernel, innermost first

  bool operator==(const KernelWait&) const = default;
};

/// Of the first thread in state D, otherwise of the first that has not ended.
KernelWait kernel_wait(pid_t pid);

/// E.g. "state D (uninterruptible sleep) in read of /data/a.bin, waiting in request_wait_answer".
std::string describe(const KernelWait& wait);

/// "65 s after SIGKILL", or with a decimal below 10 s.
std::string after_sigkill(std::chrono::duration<double> time);

/// "process 17 (python3)"; the name is left out if it cannot be read.
std::string process_and_name(pid_t pid);

/// Number and first argument, from the text of /proc/PID/syscall. Nothing if the thread is in none.
struct SystemCall {
  long number = -1;
  long first_argument = 0;

  bool operator==(const SystemCall&) const = default;
};
std::optional<SystemCall> parse_system_call(std::string_view text);

/// The functions in the text of /proc/PID/stack, at most kStackFunctionsMax of them.
inline constexpr std::size_t kStackFunctionsMax = 8;
std::vector<std::string> parse_kernel_stack(std::string_view text);

}  // namespace ddprun
