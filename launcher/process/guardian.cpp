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

// Neither `pkill -f train.py` nor `pkill ddprun` may hit it along with the agent.
constexpr std::string_view kTitle = "guardian of ";
// Nobody waits for the guardian, but it must not stay for ever either.
constexpr auto kCleanUpLimit = std::chrono::seconds(60);
// For the guardian to die of SIGKILL. One that hangs in the kernel is left to init.
constexpr auto kEndLimit = std::chrono::seconds(5);
// A marker, two paths and a number; far below what a pipe holds, so that writing it does not block.
constexpr std::size_t kTaskBytesMax = 3 * 4096;

/// A text of the pipe: it ends with a NUL.
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

/// What the agent says. Whatever makes no sense was written by nobody who could be asked.
class Pipe {
 public:
  enum class News { text, time_passed, end_of_file };

  explicit Pipe(int fd) : fd_(fd) {}

  /// The next text, unless the time comes first; what was written by then comes before it.
  News next(std::optional<Guardian::Clock::time_point> end) {
    while (held_.find('\0') == std::string::npos) {
      const int limit = end ? milliseconds_to(*end) : -1;
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      const int count = ::poll(&ready, 1, limit);
      if (count == 0 && milliseconds_to(*end) == 0) return News::time_passed;
      if (count > 0 && !read()) return News::end_of_file;
    }
    const auto size = held_.find('\0');
    text = held_.substr(0, size);
    held_.erase(0, size + 1);
    return News::text;
  }

  std::string text;  ///< the last one

 private:
  /// Rounded up.
  static int milliseconds_to(Guardian::Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Guardian::Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongestWait.count()));
  }

  /// False at the end of the file.
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

/// Nothing if the writer died too early to have anything cleaned up.
std::optional<GuardianTask> read_task(Pipe& pipe) {
  std::array<std::string, 4> texts;
  for (auto& text : texts) {
    if (pipe.next(std::nullopt) != Pipe::News::text) return std::nullopt;
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

/// Until the agent's death.
void guard(Pipe& pipe, const RunMembers& members) {
  std::optional<Guardian::Clock::time_point> end;
  while (true) {
    const auto news = pipe.next(end);
    if (news == Pipe::News::end_of_file) return;
    end.reset();
    if (news == Pipe::News::text) {
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
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // a stopped guardian must not stop the agent
  const auto text = text_of(task_) + (end_ ? text_of(*end_) : "");
  if (text.size() > kTaskBytesMax ||
      ::write(pipe_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw Error(Errc::system, "guardian: what it has to clean up is too long to be told");
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

bool Guardian::put_off(Clock::time_point end) {
  const auto before = std::exchange(end_, end);
  const auto text = text_of(end);
  // Whoever watches the guardian sees to one that has been killed.
  const bool is_full = quiet_write(pipe_.get(), text.data(), text.size()) < 0 && errno == EAGAIN;
  // What is in the pipe before that time is read before anything is done for it.
  return !is_full && (!before || Clock::now() < *before);
}

void Guardian::end() noexcept {
  if (pid_ < 0) return;
  // Not asked but killed: somebody may have stopped it.
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

int be_guardian() {
  Pipe pipe(STDIN_FILENO);
  const auto task = read_task(pipe);
  if (!task) return 0;
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  RunMembers members(task->word, task->cgroup.empty() ? std::nullopt : Cgroup::open(task->cgroup));
  // Last, so that who sees the name may rely on all the rest.
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
