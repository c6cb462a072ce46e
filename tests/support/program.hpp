// Runs a program of the build and checks its output, exit status and leftovers.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::test {

/// Returns a path in the build's bin folder.
std::string in_bin(const std::string& name);

/// A started program. Its standard output and error are read as they arrive. The destructor kills
/// it and its descendants.
class Program {
 public:
  /// `arguments[0]` is a path or found in PATH. `environment` extends and overrides that of this
  /// process; standard input is empty.
  explicit Program(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Output so far, both streams in order of arrival.
  const std::string& output() const { return output_; }

  /// Reads until the output satisfies the condition; returns false if the program ends or the time
  /// expires before.
  bool read_until(const std::function<bool(std::string_view output)>& condition,
                  std::chrono::seconds limit = std::chrono::seconds(60));
  bool read_until_contains(std::string_view text);

  /// Closes the reading end of its output, like a pager that quits.
  void stop_reading();

  /// Reads to the end and reaps. Returns the exit code, or minus the signal that ended it. After
  /// `limit` kills it and returns -1000.
  int wait(std::chrono::seconds limit = std::chrono::seconds(120));

  /// Running processes with this program's marker in their environment, except for the program
  /// itself.
  std::vector<pid_t> descendants() const;

  /// Waits up to `limit` until there are no descendants, usually milliseconds; returns whether that
  /// is so.
  bool leaves_no_process(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

 private:
  bool read_some(std::chrono::steady_clock::time_point until);

  std::string marker_;
  std::string output_;
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool has_ended_ = false;
};

struct ProgramResult {
  int exit_code = 0;
  std::string output;
};

/// Runs a program to its end and checks that no process is left.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment = {});

/// Polls a condition without a notification, such as the content of a file; returns false after
/// `limit`.
bool wait_until(const std::function<bool()>& condition,
                std::chrono::microseconds limit = std::chrono::seconds(60));

std::string read_file(const std::string& path);

/// Returns the complete lines of a file.
std::vector<std::string> read_lines(const std::string& path);
void write_file(const std::string& path, std::string_view content, bool is_executable = false);

}  // namespace ddprun::test
