#include "launcher/process/guardian.hpp"

#include "launcher/process/exec_failure.hpp"
#include "launcher/process/own_folder.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/process/run_members.hpp"
#include "launcher/process/worker_environment.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

// Not matched by `pkill -f train.py` or `pkill ddprun`, which would kill the guardian along with
// the agent.
constexpr std::string_view kTitle = "guardian of ";
// No process waits for the guardian, but it must end eventually.
constexpr auto kCleanUpLimit = std::chrono::seconds(60);
// Time for the guardian to die of SIGKILL. One that hangs in the kernel is left to init.
constexpr auto kEndLimit = std::chrono::seconds(5);
// A marker, two paths and a number; far below the capacity of a pipe, so that writing does not
// block.
constexpr std::size_t kTaskBytesMax = 3 * 4096;

/// Texts in the pipe are terminated by NUL.
std::string terminated(std::string text) {
  return text += '\0';
}

std::string text_of(const GuardianTask& task) {
  return terminated(task.word) + terminated(task.cgroup.string()) +
         terminated(task.temporary_folder.string()) +
         terminated(std::to_string(task.temporary_folder_fd));
}

std::string text_of(Guardian::Clock::time_point end) {
  return terminated(std::to_string(end.time_since_epoch().count()));
}

/// Reads the agent's messages. Malformed input is not reported: there is no process to report it
/// to.
class Pipe {
 public:
  enum class Event { text, time_passed, end_of_file };

  explicit Pipe(int fd) : fd_(fd) {}

  /// Returns the next text, or time_passed at `end`. Texts written before `end` are returned first.
  Event next(std::optional<Guardian::Clock::time_point> end) {
    while (held_.find('\0') == std::string::npos) {
      const int limit = end ? milliseconds_to(*end) : -1;
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      const int count = ::poll(&ready, 1, limit);
      if (count == 0 && milliseconds_to(*end) == 0) return Event::time_passed;
      if (count > 0 && !read()) return Event::end_of_file;
    }
    const auto size = held_.find('\0');
    text = held_.substr(0, size);
    held_.erase(0, size + 1);
    return Event::text;
  }

  std::string text;  ///< set by next()

 private:
  /// Rounds up.
  static int milliseconds_to(Guardian::Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Guardian::Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongestWait.count()));
  }

  /// Returns false at the end of file.
  bool read() {
    std::array<char, kTaskBytesMax> part{};
    const ssize_t count = ::read(fd_, part.data(), part.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0 || held_.size() > kTaskBytesMax) return false;
    held_.append(part.data(), static_cast<std::size_t>(count));
    return true;
  }

  static constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(1);

  int fd_;
  std::string held_;
};

/// Returns nullopt if the agent died before it started anything that needs cleanup.
std::optional<GuardianTask> read_task(Pipe& pipe) {
  std::array<std::string, 4> texts;
  for (auto& text : texts) {
    if (pipe.next(std::nullopt) != Pipe::Event::text) return std::nullopt;
    text = pipe.text;
  }
  return GuardianTask{.word = texts[0],
                      .cgroup = texts[1],
                      .temporary_folder = texts[2],
                      .temporary_folder_fd = std::atoi(texts[3].c_str())};
}

Guardian::Clock::time_point read_end(const std::string& text) {
  return Guardian::Clock::time_point(
      Guardian::Clock::duration(std::strtoll(text.c_str(), nullptr, 10)));
}

/// Returns at the agent's death.
void guard(Pipe& pipe, const RunMembers& members) {
  std::optional<Guardian::Clock::time_point> end;
  while (true) {
    const auto event = pipe.next(end);
    if (event == Pipe::Event::end_of_file) return;
    end.reset();
    if (event == Pipe::Event::text) {
      end = read_end(pipe.text);
    } else {
      members.kill_until_none(Deadline::after(kCleanUpLimit));
    }
  }
}

}  // namespace

Guardian::Guardian(std::string program, GuardianTask task)
    : program_(std::move(program)), task_(std::move(task)) {}

Guardian::~Guardian() {
  end();
}

void Guardian::start() {
  end();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("guardian: pipe", errno);
  const UniqueFd reader(ends[0]);
  pipe_ = UniqueFd(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // a stopped guardian must not block the agent
  const auto text = text_of(task_) + (end_ ? text_of(*end_) : "");
  if (text.size() > kTaskBytesMax ||
      ::write(pipe_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw Error(Errc::system, "guardian: the list of what it has to clean up is too long");
  }
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  auto forked = fork_process({.program = program_,
                              .arguments = {std::string(kTitle) + std::to_string(::getpid())},
                              .environment = own_environment(),
                              .folder = "/",
                              .standard_input = reader.get(),
                              .standard_output = null.get(),
                              .standard_error = null.get(),
                              .kept_descriptor = task_.temporary_folder_fd,
                              .outlives_agent = true});
  if (const auto* failure = std::get_if<StartFailure>(&forked)) {
    throw Error(Errc::system, describe_start_failure(*failure, "the guardian process", "/"),
                failure->error_number);
  }
  auto& process = std::get<ForkedProcess>(forked);
  pid_ = process.pid;
  pidfd_ = std::move(process.pidfd);
}

bool Guardian::set_deadline(Clock::time_point end) {
  const auto before = std::exchange(end_, end);
  const auto text = text_of(end);
  // An error other than a full pipe means that the guardian was killed, which its watcher handles.
  const bool is_full = quiet_write(pipe_.get(), text.data(), text.size()) < 0 && errno == EAGAIN;
  // The guardian reads messages that were in the pipe before its deadline before it acts on that.
  return !is_full && (!before || Clock::now() < *before);
}

void Guardian::end() noexcept {
  if (pid_ < 0) return;
  // SIGKILL, since the guardian may be stopped.
  ::kill(pid_, SIGKILL);
  const auto deadline = Deadline::after(kEndLimit);
  pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, deadline.remaining_poll_milliseconds()) < 0 && errno == EINTR) continue;
  ::waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
  pidfd_ = UniqueFd();
}

bool is_guardian(std::string_view name) {
  return name.rfind(kTitle, 0) == 0;
}

int run_guardian() {
  Pipe pipe(STDIN_FILENO);
  const auto task = read_task(pipe);
  if (!task) return 0;
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  RunMembers members(task->word, task->cgroup.empty() ? std::nullopt : Cgroup::open(task->cgroup));
  // Last, so that the name shows that the guardian is ready.
  ::prctl(PR_SET_NAME, "guardian", 0, 0, 0);
  guard(pipe, members);
  members.kill_until_none(Deadline::after(kCleanUpLimit));
  members.remove_cgroup();
  if (!task->temporary_folder.empty()) {
    remove_contents(task->temporary_folder_fd);
    ::rmdir(task->temporary_folder.c_str());
  }
  return 0;
}

}  // namespace ddprun
