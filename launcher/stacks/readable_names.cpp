#include "launcher/stacks/readable_names.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <poll.h>
#include <span>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun {

namespace {

// Names of templates may fill pages; this is enough to distinguish them.
constexpr std::size_t kNameBytesMax = 160;
// A name of 250 bytes can expand to a gigabyte, since parts of it refer to others.
constexpr suseconds_t kMicrosecondsMax = 50'000;
constexpr rlim_t kMemoryBytesMax = 64U << 20;

std::string readable_part(std::string_view name) {
  return std::string(name.substr(0, kNameBytesMax)) + (name.size() > kNameBytesMax ? "..." : "");
}

rlim_t address_space_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void set_limit(__rlimit_resource resource, rlim_t most) {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ::setrlimit(resource, &limit);
}

/// Runs in the child: writes each name, terminated by NUL. SIGPROF ends the child if one takes too
/// long.
void write_names(std::span<const std::string> symbols, int fd) {
  for (const auto& symbol : symbols) {
    const itimerval limit{.it_interval = {},
                          .it_value = {.tv_sec = 0, .tv_usec = kMicrosecondsMax}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    const auto text = readable_part(name ? name.get() : symbol.c_str());
    const auto bytes = static_cast<ssize_t>(text.size() + 1);
    // So few bytes are written atomically.
    if (::write(fd, text.c_str(), text.size() + 1) != bytes) return;
  }
}

[[noreturn]] void run_child(std::span<const std::string> symbols, int fd, rlim_t memory_bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, 1);
  set_limit(RLIMIT_AS, memory_bytes + kMemoryBytesMax);
  ::signal(SIGPROF, SIG_DFL);
  sigset_t profiling;
  ::sigemptyset(&profiling);
  ::sigaddset(&profiling, SIGPROF);
  ::pthread_sigmask(SIG_UNBLOCK, &profiling, nullptr);
  try {
    write_names(symbols, fd);
  } catch (...) {
    // The limit of memory has been reached.
  }
  ::_exit(0);
}

/// Reads until the other end is closed, or until the deadline.
std::string read_until(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t bytes = ready > 0 ? ::read(fd, part.data(), part.size()) : 0;
    if (bytes <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

/// Returns the names of the first symbols: of all, unless one of them exceeds the limits.
std::vector<std::string> read_by_child(std::span<const std::string> symbols, Deadline deadline) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const auto memory_bytes = address_space_bytes();
  // This process' handlers must not run in the child.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child == 0) run_child(symbols, writer.get(), memory_bytes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return {};
  writer = UniqueFd();
  const auto text = read_until(reader.get(), deadline);
  // The child only computes and writes into a pipe, so SIGKILL ends it without delay.
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  std::vector<std::string> names;
  for (std::string_view rest = text; names.size() < symbols.size();) {
    const auto end = rest.find('\0');
    if (end == std::string_view::npos) break;
    names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace

std::map<std::string, std::string> readable_names(const std::set<std::string>& symbols,
                                                  std::chrono::milliseconds timeout) {
  std::map<std::string, std::string> names;
  std::vector<std::string> mangled;
  for (const auto& symbol : symbols) {
    names[symbol] = readable_part(symbol);
    if (symbol.starts_with("_Z")) mangled.push_back(symbol);
  }
  const auto deadline = Deadline::after(timeout);
  for (std::span<const std::string> rest = mangled; !rest.empty() && !deadline.passed();) {
    const auto found = read_by_child(rest, deadline);
    for (std::size_t i = 0; i < found.size(); ++i) names[rest[i]] = found[i];
    // Skips the one that exceeded the limits.
    rest = rest.subspan(std::min(found.size() + 1, rest.size()));
  }
  return names;
}

}  // namespace ddprun
