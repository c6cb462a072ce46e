#include "launcher/ssh/relay.hpp"

#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/resolve_program.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/ssh/team.hpp"
#include "launcher/ssh/upward.hpp"
#include "rendezvous/wire/bytes.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

/// The task comes with the connection; who is that slow is not ddprun.
constexpr auto kTaskLimit = 60s;

constexpr const char* kWho = "standard input of ddprun agent-over-ssh";

/// Exactly so many bytes of standard input, or an error.
std::string read_bytes(std::size_t size, Deadline deadline) {
  std::string bytes(size, '\0');
  std::size_t taken = 0;
  while (taken < size) {
    pollfd readable{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, deadline.remaining_poll_milliseconds()) == 0) {
      throw Error(Errc::timeout, std::string(kWho) + ": no task came " + deadline.describe());
    }
    const auto count = ::read(STDIN_FILENO, bytes.data() + taken, size - taken);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(kWho, errno);
    if (count == 0) {
      throw Error(Errc::usage, std::string(kWho) +
                                   ": ended before there was a task; only 'ddprun --ssh' has one");
    }
    taken += static_cast<std::size_t>(count);
  }
  return bytes;
}

RelayTask read_relay_task() {
  const auto deadline = Deadline::after(kTaskLimit);
  const auto greeting = read_bytes(kGreeting.size(), deadline);
  if (greeting != kGreeting) {
    const bool is_other_version = greeting.starts_with(kGreetingStart);
    throw Error(Errc::protocol,
                std::string(kWho) + ": " +
                    (is_other_version ? "the ddprun that started this one is of another version"
                                      : "is not from ddprun"));
  }
  const auto length = read_bytes(sizeof(std::uint32_t), deadline);
  const auto size = wire::load_integer<std::uint32_t>(length.data());
  if (size > kTaskBytesMax) {
    throw Error(Errc::protocol, std::string(kWho) + ": a task of " + std::to_string(size) +
                                    " bytes (at most " + std::to_string(kTaskBytesMax) + ")");
  }
  auto task = decode_relay_task(read_bytes(size, deadline));
  if (!task) throw Error(Errc::protocol, std::string(kWho) + ": the task cannot be understood");
  return std::move(*task);
}

/// Signals that whoever started the run may pass on.
bool is_passed_on(int signal) {
  const auto passed = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGRTMIN};
  return std::find(passed.begin(), passed.end(), signal) != passed.end();
}

class Relay {
 public:
  Relay(asio::io_context& context, RelayTask task, const std::string& ssh)
      : executor_(context.get_executor()),
        upward_(executor_, ::dup(STDOUT_FILENO)),
        control_(executor_, ::dup(STDIN_FILENO)),
        signals_(executor_, SIGINT, SIGTERM, SIGHUP),
        team_(executor_, upward_) {
    const std::vector<Target> below(task.targets.begin() + 1, task.targets.end());
    team_.add_agent(task.targets.front(), task);
    team_.add_relays(ssh, task, below);
  }

  void start() {
    asio::co_spawn(executor_, upward_.write(),
                   [this](std::exception_ptr failure) { end(failure); });
    asio::co_spawn(executor_, obey(), [this](std::exception_ptr failure) { end(failure); });
    wait_for_signal();
    team_.start([this](std::exception_ptr failure) {
      boost::system::error_code ignored;
      if (failure) failure_ = std::move(failure);
      upward_.end();
      control_.cancel(ignored);
      signals_.cancel(ignored);
    });
  }

  std::exception_ptr failure() const { return failure_; }

 private:
  void end(const std::exception_ptr& failure) {
    if (!failure) return;
    failure_ = failure;
    team_.hang_up();
  }

  /// What comes down: a byte for each signal.
  asio::awaitable<void> obey() {
    std::array<char, 64> bytes{};
    boost::system::error_code error;
    while (true) {
      const auto count = co_await control_.async_read_some(
          asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) break;
      for (std::size_t i = 0; i < count; ++i) {
        if (is_passed_on(bytes[i])) team_.signal(bytes[i]);
      }
    }
    team_.hang_up();
  }

  /// Who asks this process to end means its node and those that only it can reach.
  void wait_for_signal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      team_.signal(signal);
      wait_for_signal();
    });
  }

  asio::any_io_executor executor_;
  Upward upward_;
  asio::posix::stream_descriptor control_;
  asio::signal_set signals_;
  Team team_;
  std::exception_ptr failure_;
};

}  // namespace

int be_relay(const EnvironmentLookup& environment) {
  // A reader that has gone is an error of writing like others.
  ::signal(SIGPIPE, SIG_IGN);
  auto task = read_relay_task();
  if (!task.agent.secret.empty()) make_memory_private();
  const auto ssh = find_tool("ssh", gather_host_facts(environment));
  asio::io_context context(1);
  Relay relay(context, std::move(task), ssh);
  relay.start();
  context.run();
  if (relay.failure()) std::rethrow_exception(relay.failure());
  return 0;
}

}  // namespace ddprun::ssh
