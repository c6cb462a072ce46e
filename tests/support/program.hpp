// Runs a program of the build as a user would and looks at what it does: output, exit status, what
// it leaves behind.
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

/// A path in the build's bin folder.
std::string in_bin(const std::string& name);

/// A started program. Its standard output and error are read as they come. The destructor kills it
/// and all that it started.
class Program {
 public:
  /// `arguments[0]` is a path or found in PATH. `environment` is laid over this process' own;
  /// standard input is empty.
  explicit Program(const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& environment = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// What it has written so far, both streams as they came.
  const std::string& output() const { return output_; }

  /// Reads on until the output satisfies the condition; false if the program ended or the time
  /// passed before.
  bool read_until(const std::function<bool(std::string_view output)>& condition,
                  std::chrono::seconds limit = std::chrono::seconds(60));
  bool read_until_contains(std::string_view text);

  /// Closes the reading end of its output, as a pager does that was left.
  void stop_reading();

  /// Reads to the end and reaps. Returns the exit code, or minus the signal that ended it. After
  /// `limit` it is killed and -1000 is returned.
  int wait(std::chrono::seconds limit = std::chrono::seconds(120));

  /// Processes that carry this program's marker in their environment and still run, the program
  /// itself left out.
  std::vector<pid_t> descendants() const;

  /// True once there are no descendants; waits for that at most `limit`. On an idle machine it is a
  /// matter of milliseconds.
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

/// Runs to the end and checks that no process is left.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment = {});

/// Waits for a condition that nobody announces, such as a file's content; false after `limit`.
bool wait_until(const std::function<bool()>& condition,
                std::chrono::microseconds limit = std::chrono::seconds(60));

std::string read_file(const std::string& path);

/// The whole lines of a file.
std::vector<std::string> read_lines(const std::string& path);
void write_file(const std::string& path, std::string_view content, bool is_executable = false);

}  // namespace ddprun::test
