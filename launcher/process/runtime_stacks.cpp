#include "launcher/process/runtime_stacks.hpp"

#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using control::ThreadStack;

// Room for the responses of all threads at once, so that none is lost.
constexpr int kAnswerBytes = static_cast<int>(kStackThreadsMax * 2 * sizeof(ThreadStack));

bool is_pipe(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

/// A named pipe in the folder, removed with this object.
class NamedPipe {
 public:
  NamedPipe(const HeldPath& folder, const char* name)
      : folder_(folder.open(O_PATH | O_DIRECTORY)), name_(name) {
    ::unlinkat(folder_.get(), name_, 0);  // left by a killed agent's attempt
    if (::mkfifoat(folder_.get(), name_, 0600) != 0) return;
    // Opened for both reading and writing, so that reads never return end of file.
    auto fd = open_beneath(folder_.get(), name_, O_RDWR | O_NONBLOCK);
    if (!is_pipe(fd.get())) return;
    fd_ = std::move(fd);
    ::fcntl(fd_.get(), F_SETPIPE_SZ, kAnswerBytes);
  }
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;
  ~NamedPipe() { ::unlinkat(folder_.get(), name_, 0); }

  /// Returns the descriptor, which the caller then owns; -1 if none.
  int release() { return fd_.release(); }

 private:
  UniqueFd folder_;
  const char* name_;
  UniqueFd fd_;
};

std::size_t request_each(pid_t pid) {
  std::size_t requested = 0;
  for (const pid_t thread : thread_ids(pid)) {
    if (requested == kStackThreadsMax) break;
    if (::syscall(SYS_tgkill, pid, thread, control::stack_request_signal()) == 0) ++requested;
  }
  return requested;
}

asio::awaitable<void> read_answers(asio::posix::stream_descriptor& pipe,
                                   std::vector<ThreadStack>& answers, std::size_t requested) {
  while (answers.size() < requested) {
    ThreadStack answer;
    const auto bytes =
        co_await pipe.async_read_some(asio::buffer(&answer, sizeof answer), asio::use_awaitable);
    if (bytes != sizeof answer) continue;
    answer.frames = std::min(answer.frames, control::kStackFramesMax);
    answers.push_back(answer);
  }
}

}  // namespace

asio::awaitable<std::vector<ThreadStack>> request_runtime_stacks(asio::any_io_executor executor,
                                                                 pid_t pid, HeldPath folder,
                                                                 Deadline deadline) {
  std::vector<ThreadStack> answers;
  NamedPipe named(folder, control::kStackPipe);
  const int fd = named.release();
  if (fd < 0) co_return answers;
  asio::posix::stream_descriptor pipe(executor, fd);
  const auto requested = request_each(pid);
  auto reading = read_answers(pipe, answers, requested);
  co_await with_deadline(std::move(reading), deadline);
  std::sort(answers.begin(), answers.end(),
            [](const ThreadStack& a, const ThreadStack& b) { return a.thread_id < b.thread_id; });
  co_return answers;
}

}  // namespace ddprun
