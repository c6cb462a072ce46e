#include "launcher/ssh/agent_start.hpp"

#include "launcher/process/process_start.hpp"
#include "launcher/ssh/memory_file.hpp"
#include "launcher/ssh/task.hpp"
#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ddprun::ssh {

namespace {

AgentTask read_task() {
  std::string bytes;
  std::array<char, 65536> block{};
  while (bytes.size() <= kTaskBytesMax) {
    const auto count = ::read(STDIN_FILENO, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    bytes.append(block.data(), static_cast<std::size_t>(count));
  }
  auto task = decode_agent_task(bytes);
  if (!task) {
    throw Error(Errc::usage,
                "agent-on-node: standard input is not a task; only ddprun itself starts it so");
  }
  return std::move(*task);
}

}  // namespace

AgentStart read_agent_start() {
  auto task = read_task();
  if (!task.secret.empty()) make_memory_private();
  // Others may have opened it, too. Fails if it cannot be written.
  [[maybe_unused]] const int wiped = ::ftruncate(STDIN_FILENO, 0);
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() >= 0) ::dup2(null.get(), STDIN_FILENO);
  AgentStart start{.arguments = {"--config=" + task.config_name},
                   .config_text = std::move(task.config_text),
                   .secret = UniqueFd(),
                   .mark = std::move(task.mark),
                   .columns = task.columns};
  if (!task.secret.empty()) {
    start.secret = memory_file("ddprun-secret", task.secret);
    if (start.secret.get() < 0) throw_system_error("agent-on-node: the secret", errno);
    start.arguments.push_back("--secret_file=/proc/self/fd/" + std::to_string(start.secret.get()));
  }
  start.arguments.insert(start.arguments.end(), task.arguments.begin(), task.arguments.end());
  return start;
}

}  // namespace ddprun::ssh
