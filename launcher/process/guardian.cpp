#include "launcher/process/guardian.hpp"

#include "launcher/process/process_start.hpp"
#include "launcher/process/run_members.hpp"
#include "launcher/process/worker_environment.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
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
// A marker and two paths; far below what a pipe holds, so that writing it does not block.
constexpr std::size_t kTaskBytesMax = 3 * 4096;

/// Three texts, each with a NUL at its end.
std::string to_text(const GuardianTask& task) {
  std::string text;
  for (const auto& part : {task.word, task.cgroup.string(), task.temporary_folder.string()}) {
    text += part;
    text += '\0';
  }
  return text;
}

/// Nothing if the writer died too early to have anything cleaned up.
std::optional<GuardianTask> read_task(int fd) {
  std::string text;
  while (std::count(text.begin(), text.end(), '\0') < 3) {
    std::array<char, kTaskBytesMax> part{};
    const ssize_t count = ::read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || text.size() > kTaskBytesMax) return std::nullopt;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  const auto first = text.find('\0'), second = text.find('\0', first + 1);
  return GuardianTask{.word = text.substr(0, first),
                      .cgroup = text.substr(first + 1, second - first - 1),
                      .temporary_folder = text.substr(second + 1, text.size() - second - 2)};
}

void wait_for_end_of_file(int fd) {
  char nothing = 0;
  while (::read(fd, &nothing, 1) < 0 && errno == EINTR) {
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
  const auto text = to_text(task_);
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
                              .outlives_agent = true});
  if (const auto* failure = std::get_if<StartFailure>(&forked)) {
    throw_system_error("guardian: no process can be had (see ulimit -u)", failure->error_number);
  }
  auto& process = std::get<ForkedProcess>(forked);
  pid_ = process.pid;
  pidfd_ = std::move(process.pidfd);
}

void Guardian::end() noexcept {
  if (pid_ < 0) return;
  // Not asked but killed: somebody may have stopped it.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_ = UniqueFd();
}

bool is_guardian(std::string_view name) {
  return name.rfind(kTitle, 0) == 0;
}

int be_guardian() {
  const auto task = read_task(STDIN_FILENO);
  if (!task) return 0;
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  RunMembers members(task->word, task->cgroup.empty() ? std::nullopt : Cgroup::open(task->cgroup));
  // Last, so that who sees the name may rely on all the rest.
  ::prctl(PR_SET_NAME, "guardian", 0, 0, 0);
  wait_for_end_of_file(STDIN_FILENO);
  members.kill_until_none(Deadline::after(kCleanUpLimit));
  members.remove_cgroup();
  std::error_code ignored;
  if (!task->temporary_folder.empty()) {
    std::filesystem::remove_all(task->temporary_folder, ignored);
  }
  return 0;
}

}  // namespace ddprun
