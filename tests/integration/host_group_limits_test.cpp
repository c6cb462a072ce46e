// Process groups on the host backend under memory limits: they fit, or report the limit.
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/failure_text.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/limited_address_space.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/skip.hpp"
#include "worker_runtime/backends/host/handover.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>
#include <sched.h>

#include <csignal>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

namespace host_group_limits_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

void limit_files_to(rlim_t bytes) {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("setrlimit");
}

/// Two ranks create a group after each has called `prepare`; returns their results.
std::vector<RankEnd> ends_after(const std::function<void()>& prepare, std::size_t arena_bytes = 0) {
  const StoreProcess store;
  RankProcesses ranks(2, [&](int rank) {
    prepare();
    GroupOptions options;
    options.arena_bytes = arena_bytes;
    auto group = ProcessGroup::create(make_env(store.endpoint(), rank, 2), options);
    float sum = 1;
    group.all_reduce(as_buffer(&sum, 1)).wait();
    return std::to_string(static_cast<int>(sum));
  });
  std::vector<RankEnd> ends{ranks.wait(0)};
  if (!ends[0].exited_with(0)) ranks.kill(1, SIGKILL);  // like the agent
  ends.push_back(ranks.wait(1));
  return ends;
}

/// Connects to an abstract socket until its backlog is full.
std::vector<UniqueFd> fill_backlog(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  std::vector<UniqueFd> callers;
  do {
    callers.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  } while (::connect(callers.back().get(), reinterpret_cast<const sockaddr*>(&address), bytes) ==
           0);
  return callers;
}

void check_success(const std::vector<RankEnd>& ends) {
  for (const auto& end : ends) {
    CAPTURE(end.status);
    CHECK(end.output == "2");
    CHECK(end.exited_with(0));
  }
}

/// Fills /dev/shm for this process alone. Returns false if that is not permitted.
bool fill_shared_memory_folder() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/dev/shm", "tmpfs", MS_RDONLY, "size=4k") == 0;
}

}  // namespace

TEST_SUITE("host group limits") {
  TEST_CASE(
      "host group: a first rank that accepts no connections delays no rank beyond its limit") {
    const host::HandoverServer stopped;
    const auto callers = fill_backlog(stopped.name());
    const auto text = describe_failure([&] {
      host::receive_descriptor(stopped.name(), 1, Deadline::after(std::chrono::milliseconds(200)));
    });
    CHECK_MESSAGE(text.find("timeout: process group: the node's first rank does not accept ") == 0,
                  text);
  }

  TEST_CASE("host group: default arenas fit limits on file size and address space") {
    check_success(ends_after([] { limit_files_to(rlim_t{4} << 30); }));
    check_success(ends_after([] { static const LimitedAddressSpace limit(std::size_t{1} << 30); }));
  }

  TEST_CASE("host group: memory beyond a limit is rejected with the limit and a remedy") {
    const auto file = ends_after([] { limit_files_to(2 << 20); })[0];
    CHECK(file.exited_with(1));
    CHECK(file.output ==
          "group memory: 34 MiB exceed the 2 MiB that a file may have; raise the limit (ulimit -f) "
          "or lower GroupOptions::arena_bytes");
    const auto memory = ends_after([] { static const LimitedAddressSpace limit(64 << 20); },
                                   std::size_t{64} << 20)[0];
    CAPTURE(memory.output);
    CHECK(memory.exited_with(1));
    CHECK(memory.output.starts_with("group memory: 130 MiB exceed the "));
    CHECK(
        memory.output.ends_with("MiB that are left of the address space; raise the limit (ulimit "
                                "-v) or lower GroupOptions::arena_bytes"));
  }

  TEST_CASE("host group: a full /dev/shm does not affect a group") {
    const auto ends = ends_after([] {
      if (!fill_shared_memory_folder()) throw std::runtime_error("not permitted");
    });
    if (ends[0].output == "not permitted") return skip("/dev/shm cannot be replaced here");
    check_success(ends);
  }
}

}  // namespace host_group_limits_test
