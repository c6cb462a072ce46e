// The library in whose code a process waits, and for what, from its stack and from outside.
#include "launcher/process/waiting_code.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "tests/support/torch_sleep.hpp"
#include <ddprun/deadline.hpp>

#include <doctest/doctest.h>
#include <sched.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <linux/futex.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace waiting_code_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const std::vector<Mapping> kCode = {
    {.begin = 0x1000, .end = 0x2000, .file_offset = 0, .file = "/usr/bin/python3.11"},
    {.begin = 0x3000, .end = 0x4000, .file_offset = 0, .file = "/lib/libc.so.6"},
    {.begin = 0x4000, .end = 0x5000, .file_offset = 0, .file = "/lib/libstdc++.so.6.0.30"},
    {.begin = 0x5000, .end = 0x6000, .file_offset = 0, .file = "/venv/torch/lib/libtorch_cpu.so"},
    {.begin = 0x6000, .end = 0x7000, .file_offset = 0, .file = "[vdso]"}};

bool is_call(std::vector<std::uint8_t> code) {
  code.insert(code.begin(), kCallBytesMax - code.size(), 0x90);
  return ends_with_call_of_x86_64(CodeBefore(code.data(), kCallBytesMax));
}

bool is_call_of_aarch64(std::uint32_t instruction) {
  std::vector<std::uint8_t> code(kCallBytesMax - sizeof instruction);
  for (int shift = 0; shift < 32; shift += 8)
    code.push_back(static_cast<std::uint8_t>(instruction >> shift));
  return ends_with_call_of_aarch64(CodeBefore(code.data(), kCallBytesMax));
}

std::string calling(const std::vector<std::uint64_t>& stack) {
  return calling_code(stack, kCode);
}

/// A forked process that repeats one action until it is killed.
class Child {
 public:
  explicit Child(void (*act)()) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) act();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

void sleep_in_program() {
  const timespec time{.tv_sec = 3600, .tv_nsec = 0};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

void sleep_in_library() {
  sleep_in_libtorch();
}

void wait_for_signal() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigsuspend(&none);
}

void wait_for_lock() {
  int word = 0;
  ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
}

void read_pipe() {
  int ends[2] = {-1, -1};
  char byte = 0;
  if (::pipe(ends) == 0 && ::read(ends[0], &byte, 1) != 0) ::_exit(1);
}

void poll_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) ::_exit(1);
  pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};
  ::ppoll(&end, 1, nullptr, nullptr);
}

/// Returns false if the process does not reach that state within 20 s.
bool reaches(const Child& child, long system_call) {
  const auto file = "/proc/" + std::to_string(child.pid()) + "/syscall";
  const auto deadline = Deadline::after(20s);
  while (!deadline.passed()) {
    const auto call = parse_system_call(read_text(file));
    if (call && call->number == system_call) return true;
    ::sched_yield();
  }
  return false;
}

}  // namespace

TEST_SUITE("waiting code") {
  TEST_CASE("waiting code: the innermost collective library or most frequent file is returned") {
    CHECK(calling({0, 0x6100, 0x3100, 0x4100, 0x5100, 0x1100}) ==
          "/venv/torch/lib/libtorch_cpu.so");
    CHECK(calling({0x3100, 0x1fff, 0x7100}) == "/usr/bin/python3.11");
    CHECK(calling({0x3100, 0x1fff, 0x5100, 0x3100, 0x5200, 0x3200, 0x3300, 0x3400}) ==
          "/venv/torch/lib/libtorch_cpu.so");
    CHECK(calling({0x5100, 0x1100, 0x1200, 0x1300}) == "/venv/torch/lib/libtorch_cpu.so");
    CHECK(calling({0x1100, 0x5100, 0x3100}) == "/venv/torch/lib/libtorch_cpu.so");
    CHECK(calling({0x2000, 0xfff, 0x3100}).empty());
    CHECK(calling({}).empty());
  }

  TEST_CASE("waiting code: a return address is preceded by a call") {
    const std::vector<std::uint8_t> calls[] = {
        {0xE8, 1, 2, 3, 4},              // to a relative address
        {0xFF, 0xD0},                    // to %rax
        {0xFF, 0x10},                    // to *(%rax)
        {0xFF, 0x14, 0xD8},              // to *(%rax,%rbx,8)
        {0xFF, 0x50, 8},                 // to *8(%rax)
        {0xFF, 0x54, 0x24, 8},           // to *8(%rsp)
        {0xFF, 0x15, 1, 2, 3, 4},        // to *x(%rip)
        {0xFF, 0x90, 1, 2, 3, 4},        // to *x(%rax)
        {0xFF, 0x94, 0x24, 1, 2, 3, 4},  // to *x(%rsp)
    };
    for (const auto& call : calls) {
      CAPTURE(&call - calls);
      CHECK(is_call(call));
      if (call.size() == kCallBytesMax) continue;
      auto followed = call;
      followed.push_back(0x90);
      CHECK_FALSE(is_call(followed));
    }
    CHECK_FALSE(is_call({}));
    CHECK_FALSE(is_call({0xFF, 0xE0}));  // a jump
    CHECK_FALSE(is_call({0xFF, 0xD0, 0xFF}));
    // bl, blr x3, blr x30, blraa x8, x9, blrabz x8
    for (const std::uint32_t call : {0x94000001U, 0xD63F0060, 0xD63F03C0, 0xD73F0909, 0xD63F0D1F})
      CHECK(is_call_of_aarch64(call));
    // b, br x16, svc, ret, braa x8, x9, braaz x8, retaa
    for (const std::uint32_t other :
         {0x14000001U, 0xD61F0200, 0xD4000001, 0xD65F03C0, 0xD71F0909, 0xD61F091F, 0xD65F0BFF})
      CHECK_FALSE(is_call_of_aarch64(other));
  }

  TEST_CASE("waiting code: nanosleep() but not sigsuspend() counts as sleep") {
    const Child sleeper(sleep_in_program), waiter(wait_for_signal);
    REQUIRE(reaches(sleeper, SYS_clock_nanosleep));
    REQUIRE(reaches(waiter, SYS_rt_sigsuspend));
    CHECK(sleeping_code(sleeper.pid()) == std::filesystem::read_symlink("/proc/self/exe"));
    CHECK(sleeping_code(waiter.pid()).empty());
    CHECK(waiting_code(waiter.pid()) == std::filesystem::read_symlink("/proc/self/exe"));
  }

  TEST_CASE("waiting code: waits for a lock and for a peer are distinguished") {
    struct Row {
      void (*act)();
      long system_call;
      WaitCause cause;
    };
    for (const auto& row :
         {Row{wait_for_lock, SYS_futex, WaitCause::lock}, Row{read_pipe, SYS_read, WaitCause::peer},
          Row{poll_pipe, SYS_ppoll, WaitCause::peer},
          Row{sleep_in_program, SYS_clock_nanosleep, WaitCause::other}}) {
      const Child child(row.act);
      CAPTURE(row.system_call);
      REQUIRE(reaches(child, row.system_call));
      CHECK(kernel_wait(child.pid()).cause == row.cause);
    }
  }

  TEST_CASE("waiting code: a library for collectives is recognised by its name") {
    for (const char* path : {"/venv/torch/lib/libtorch_cpu.so", "libgloo.so.0", "/x/libnccl.so.2",
                             "/usr/lib/libmpi.so.40"})
      CHECK(is_collective_library(path));
    for (const char* path : {"/libtorch/bin/python3.11", "/usr/lib/libc.so.6", ""})
      CHECK_FALSE(is_collective_library(path));
  }

  TEST_CASE("waiting code: only processes that sleep in a PyTorch library are found") {
    const Child torch(sleep_in_library), sleeper(sleep_in_program), waiter(wait_for_signal);
    REQUIRE(reaches(torch, SYS_clock_nanosleep));
    REQUIRE(reaches(sleeper, SYS_clock_nanosleep));
    REQUIRE(reaches(waiter, SYS_rt_sigsuspend));
    CHECK(std::filesystem::path(sleeping_code(torch.pid())).filename() == "libtorch_test.so");
    CHECK(sleeping_in_pytorch(::getpid()) == std::vector<pid_t>{torch.pid()});
    CHECK(sleeping_in_pytorch(waiter.pid()).empty());
  }

  TEST_CASE("waiting code: a process started by a child is found") {
    const Child parent([] {
      const Child torch(sleep_in_library);
      ::pause();
    });
    const auto deadline = Deadline::after(20s);
    while (sleeping_in_pytorch(::getpid()).empty() && !deadline.passed()) ::sched_yield();
    const auto found = sleeping_in_pytorch(::getpid());
    REQUIRE(found.size() == 1);
    CHECK(found[0] != parent.pid());
  }

  TEST_CASE("waiting code: no code is returned for an ended process") {
    pid_t ended = 0;
    {
      const Child child(sleep_in_program);
      ended = child.pid();
    }
    CHECK(sleeping_code(ended).empty());
    CHECK(waiting_code(ended).empty());
  }
}

}  // namespace waiting_code_test
