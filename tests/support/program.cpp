#include "tests/support/program.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun::test {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kMarkerName = "DDPRUN_TEST_MARKER";

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

std::vector<std::string> make_environment(const std::map<std::string, std::string>& overlay) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!overlay.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : overlay) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> as_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const auto& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool is_zombie(const fs::path& process) {
  const std::string stat = read_file(process / "stat");
  const auto end_of_name = stat.rfind(')');
  return end_of_name == std::string::npos || stat.substr(end_of_name + 2, 1) == "Z";
}

int milliseconds_until(Clock::time_point time) {
  return std::max(
      0,
      static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count()));
}

}  // namespace

std::string in_bin(const std::string& name) {
  return std::string(DDPRUN_BIN_DIR) + "/" + name;
}

Program::Program(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment) {
  static int count = 0;
  marker_ = std::to_string(::getpid()) + "." + std::to_string(++count);
  auto overlay = environment;
  overlay[kMarkerName] = marker_;
  const auto variables = make_environment(overlay);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe2", errno);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const int error = ::posix_spawnp(&pid_, arguments.at(0).c_str(), &actions, nullptr,
                                   as_pointers(arguments).data(), as_pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  pipe_ = ends[0];
  if (error != 0) {
    ::close(pipe_);
    fail("cannot start " + arguments[0], error);
  }
}

Program::~Program() {
  if (!has_ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // A guardian exits by itself, once it has removed what a killed agent left.
  for (const pid_t left : descendants()) {
    const auto name = read_file("/proc/" + std::to_string(left) + "/comm");
    if (name != "guardian\n") ::kill(left, SIGKILL);
  }
  leaves_no_process();
  for (const pid_t left : descendants()) ::kill(left, SIGKILL);
  stop_reading();
}

void Program::stop_reading() {
  if (pipe_ >= 0) ::close(std::exchange(pipe_, -1));
}

void Program::signal(int number) const {
  if (!has_ended_) ::kill(pid_, number);
}

bool Program::read_some(Clock::time_point until) {
  pollfd ready{.fd = pipe_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, milliseconds_until(until)) <= 0) return false;
  char buffer[65536];
  const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
  if (bytes <= 0) return false;
  output_.append(buffer, static_cast<std::size_t>(bytes));
  return true;
}

bool Program::read_until(const std::function<bool(std::string_view)>& condition,
                         std::chrono::seconds limit) {
  const auto until = Clock::now() + limit;
  while (!condition(output_)) {
    if (!read_some(until)) return condition(output_);
  }
  return true;
}

bool Program::read_until_contains(std::string_view text) {
  return read_until(
      [text](std::string_view output) { return output.find(text) != std::string_view::npos; });
}

int Program::wait(std::chrono::seconds limit) {
  const auto until = Clock::now() + limit;
  // Waits for its exit, not for the end of its output: a descendant may hold the pipe.
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  bool pipe_is_open = true;
  while (true) {
    pollfd ready[2] = {{.fd = pidfd, .events = POLLIN, .revents = 0},
                       {.fd = pipe_is_open ? pipe_ : -1, .events = POLLIN, .revents = 0}};
    ::poll(ready, 2, milliseconds_until(until));
    if (ready[1].revents != 0) {
      pipe_is_open = read_some(until);
    } else if (ready[0].revents != 0 || Clock::now() >= until) {
      break;
    }
  }
  const bool is_late = Clock::now() >= until;
  ::close(pidfd);
  if (is_late) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  has_ended_ = true;
  if (is_late) return -1000;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<pid_t> Program::descendants() const {
  std::vector<pid_t> found;
  const std::string wanted = std::string(kMarkerName) + "=" + marker_ + '\0';
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == pid_ || pid == ::getpid()) continue;
    if (read_file(entry.path() / "environ").find(wanted) == std::string::npos) continue;
    if (!is_zombie(entry.path())) found.push_back(pid);
  }
  return found;
}

bool Program::leaves_no_process(std::chrono::milliseconds limit) const {
  const auto until = Clock::now() + limit;
  while (true) {
    const auto left = descendants();
    if (left.empty()) return true;
    if (Clock::now() >= until) return false;
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, left.front(), 0));
    if (pidfd < 0) continue;  // it has ended meanwhile
    pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, milliseconds_until(until));
    ::close(pidfd);
  }
}

ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment) {
  Program program(arguments, environment);
  const int exit_code = program.wait();
  if (!program.leaves_no_process())
    throw std::runtime_error(arguments.at(0) + " left processes behind");
  return {.exit_code = exit_code, .output = program.output()};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool wait_until(const std::function<bool()>& condition, std::chrono::microseconds limit) {
  const auto until = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    if (!text.eof()) lines.push_back(line);  // the last line may be incomplete
  }
  return lines;
}

void write_file(const std::string& path, std::string_view content, bool is_executable) {
  std::ofstream(path, std::ios::binary) << content;
  if (is_executable) ::chmod(path.c_str(), 0755);
}

}  // namespace ddprun::test
