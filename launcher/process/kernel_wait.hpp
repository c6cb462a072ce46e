// Describes what a process waits for in the kernel, from /proc. Does not access the file system on
// which that process hangs. Thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// What a system call waits for.
enum class WaitCause {
  unknown,  ///< the call is unknown, or not readable
  lock,     ///< a lock or a condition of this process, as in the collectives of Gloo
  peer,     ///< another process: a socket, a pipe, a child
  other,    ///< a file, a device or a time
};

/// State of one thread. Fields that this user may not read are empty.
struct KernelWait {
  char state = '\0';  ///< state in /proc/PID/stat; '\0': no such process
  bool is_exiting = false;
  WaitCause cause = WaitCause::unknown;
  std::string system_call{};         ///< name, such as "read"
  std::string file{};                ///< file of the descriptor in the first argument
  std::string function{};            ///< kernel function, from /proc/PID/wchan
  std::vector<std::string> stack{};  ///< kernel functions, innermost first

  bool operator==(const KernelWait&) const = default;
};

/// Returns the wait of the first thread in state D, otherwise of the first that has not ended.
KernelWait kernel_wait(pid_t pid);

/// Returns true if a thread is in state D and not exiting: no signal ends the process.
bool is_uninterruptible(pid_t pid);

/// Returns the wait of the main thread.
KernelWait main_thread_wait(pid_t pid);

/// Returns "state D (uninterruptible sleep) in read of /data/a.bin, waiting in request_wait_answer"
/// or similar.
std::string describe(const KernelWait& wait);

/// Returns text such as "65 s after SIGKILL", with a decimal below 10 s.
std::string after_sigkill(std::chrono::duration<double> time);

/// Returns "process 17 (python3)", or without the name if it cannot be read.
std::string process_and_name(pid_t pid);

/// Number and first argument, from the text of /proc/PID/syscall; nullopt outside a system call.
struct SystemCall {
  long number = -1;
  long first_argument = 0;

  bool operator==(const SystemCall&) const = default;
};
std::optional<SystemCall> parse_system_call(std::string_view text);

/// Returns the functions in the text of /proc/PID/stack, at most kStackFunctionsMax.
inline constexpr std::size_t kStackFunctionsMax = 8;
std::vector<std::string> parse_kernel_stack(std::string_view text);

}  // namespace ddprun
