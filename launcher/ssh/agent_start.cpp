#include "launcher/ssh/agent_start.hpp"

#include "launcher/process/memory_file.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/ssh/node_task.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include "rendezvous/wire/bytes.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace ddprun::ssh {

namespace {

/// The starter sends the task immediately after the connection is open; a user at a terminal does
/// not.
constexpr auto kTaskLimit = std::chrono::seconds(60);

constexpr const char* kInput = "standard input of ddprun agent-over-ssh";

/// Reads exactly `size` bytes from standard input; the following bytes are for the supervisor.
std::string read_bytes(std::size_t size, Deadline deadline) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    pollfd readable{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, deadline.remaining_poll_milliseconds()) == 0) {
      throw Error(Errc::timeout, std::string(kInput) + ": no task " + deadline.describe());
    }
    const auto count = ::read(STDIN_FILENO, bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(kInput, errno);
    if (count == 0) {
      throw Error(Errc::usage,
                  std::string(kInput) + ": ended before a task; only 'ddprun --ssh' sends one");
    }
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

NodeTask read_task() {
  const auto deadline = Deadline::after(kTaskLimit);
  const auto greeting = read_bytes(kGreeting.size(), deadline);
  if (greeting != kGreeting) {
    const bool is_other_version = greeting.starts_with(kGreetingStart);
    throw Error(Errc::protocol,
                std::string(kInput) + (is_other_version
                                           ? ": the starting ddprun has another version; install "
                                             "the same version on all machines"
                                           : ": not a task; only 'ddprun --ssh' sends one"));
  }
  const auto length = read_bytes(sizeof(std::uint32_t), deadline);
  const auto size = wire::load_integer<std::uint32_t>(length.data());
  if (size > kTaskBytesMax) {
    throw Error(Errc::protocol, std::string(kInput) + ": task of " + std::to_string(size) +
                                    " bytes (limit " + std::to_string(kTaskBytesMax) + ")");
  }
  auto task = decode_node_task(read_bytes(size, deadline));
  if (!task) throw Error(Errc::protocol, std::string(kInput) + ": malformed task");
  return std::move(*task);
}

void set_variables(const std::vector<std::string>& variables) {
  for (const auto& variable : variables) {
    const auto equals = variable.find('=');
    if (equals == std::string::npos) continue;
    ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
}

void acknowledge() {
  if (quiet_write(STDOUT_FILENO, kGreeting.data(), kGreeting.size()) !=
      static_cast<ssize_t>(kGreeting.size())) {
    throw_system_error("standard output of ddprun agent-over-ssh", errno);
  }
}

}  // namespace

AgentStart read_agent_start() {
  make_memory_private();  // the task may contain the run's secret
  auto task = read_task();
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0 || ::dup2(null.get(), STDIN_FILENO) < 0)
    throw_system_error("/dev/null", errno);
  if (::chdir(task.folder.c_str()) != 0) {
    throw_system_error("cannot enter the folder " + task.folder, errno);
  }
  set_variables(task.variables);
  AgentStart start{.arguments = {"--config=" + task.config_name},
                   .config_text = std::move(task.config_text),
                   .secret = UniqueFd(),
                   .mark = std::move(task.mark),
                   .columns = task.columns};
  if (!task.secret.empty()) {
    start.secret = memory_file("ddprun-secret", task.secret);
    if (start.secret.get() < 0) throw_system_error("memory file of the secret", errno);
    start.arguments.push_back("--secret_file=/proc/self/fd/" + std::to_string(start.secret.get()));
  }
  start.arguments.push_back("--node_name=" + task.node_name);
  start.arguments.insert(start.arguments.end(), task.arguments.begin(), task.arguments.end());
  acknowledge();
  return start;
}

}  // namespace ddprun::ssh
