// The state of a worker at its start, and causes of failed starts.
#include "launcher/process/worker_process.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/ssh/agent_start.hpp"
#include "tests/support/as_user.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/worker_bench.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace worker_process_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// Console output of a worker that runs `arguments`.
std::string output_of(WorkerBench& bench, std::vector<std::string> arguments) {
  auto spec = shell_worker(0, "");
  spec.arguments = std::move(arguments);
  spec.standard_output.prefix = "";
  bench.start({spec});
  bench.run_to_end();
  return bench.console();
}

std::string field_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  }
  return "no " + name;
}

fs::path write_program(const fs::path& file, const std::string& text, fs::perms mode) {
  std::ofstream(file, std::ios::binary) << text;
  fs::permissions(file, mode);
  return file;
}

WorkerNotStarted failure_of(WorkerSpec spec) {
  WorkerBench bench;
  const auto result = bench.try_start({std::move(spec)});
  REQUIRE(std::holds_alternative<WorkerNotStarted>(result));
  return std::get<WorkerNotStarted>(result);
}

WorkerSpec program(const fs::path& file) {
  WorkerSpec spec;
  spec.arguments = {file.string()};
  return spec;
}

std::string oom_score_of_child(bool outlives_agent) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const auto forked = fork_process({.arguments = {"/bin/cat", "/proc/self/oom_score_adj"},
                                    .environment = {},
                                    .standard_output = writer.get(),
                                    .standard_error = writer.get(),
                                    .outlives_agent = outlives_agent});
  writer = UniqueFd();
  std::string text(64, '\0');
  std::size_t size = 0;
  while (const auto got = ::read(reader.get(), &text[size], text.size() - size)) {
    if (got < 0) throw std::runtime_error("read");
    size += static_cast<std::size_t>(got);
  }
  ::waitpid(std::get<ForkedProcess>(forked).pid, nullptr, 0);
  return text.substr(0, size);
}

std::string elf_of_another_machine() {
  std::ifstream file("/bin/true", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  std::string bytes = text.str();
  bytes[18] = static_cast<char>(243);  // e_machine: RISC-V
  return bytes;
}

}  // namespace

TEST_SUITE("worker process") {
  TEST_CASE("worker process: signal handlers are reset and the signal mask is empty") {
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    WorkerBench bench;
    const auto status = output_of(bench, {"/bin/cat", "/proc/self/status"});
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::signal(SIGUSR1, SIG_DFL);
    CHECK(field_of(status, "SigBlk") == "0000000000000000");
    CHECK(field_of(status, "SigIgn") == "0000000000000000");
    CHECK(field_of(status, "SigCgt") == "0000000000000000");
  }

  TEST_CASE("worker process: an unreadable exit status is reported like a failure") {
    WorkerBench bench;
    const auto go = bench.folder() / "go";
    bench.start({shell_worker(0, "while [ ! -e " + go.string() + " ]; do sleep 0.01; done")});
    // From now on the kernel reaps children itself, with any exit status.
    ::signal(SIGCHLD, SIG_IGN);
    std::ofstream(go).close();
    bench.run_to_end();
    ::signal(SIGCHLD, SIG_DFL);
    const auto& exit = bench.history().exit_of(0);
    CHECK(exit.failed());
    CHECK(exit.error_message == "its exit status is unknown: waitid: No child processes");
  }

  TEST_CASE("worker process: only the streams and the control page are inherited") {
    const int leaked = ::open("/dev/zero", O_RDONLY);  // without close-on-exec
    WorkerBench bench;
    const auto list = output_of(bench, {"/bin/ls", "-l", "/proc/self/fd"});
    ::close(leaked);
    CHECK(list.find("/dev/zero") == std::string::npos);
    CHECK(list.find(" 0 -> /dev/null") != std::string::npos);
    CHECK(list.find("ddprun-control") != std::string::npos);
    // 0, 1, 2, the page and the folder that ls reads; and a line with the total.
    CHECK(std::count(list.begin(), list.end(), '\n') == 6);
  }

  TEST_CASE("worker process: each worker leads a session and has a raised OOM score") {
    WorkerBench bench;
    const auto started = bench.start({shell_worker(0, "sleep 1000")});
    CHECK(::getsid(started[0].pid) == started[0].pid);
    CHECK(::getpgid(started[0].pid) == started[0].pid);
    int own = 0, of_worker = 0;
    std::ifstream("/proc/self/oom_score_adj") >> own;
    std::ifstream("/proc/" + std::to_string(started[0].pid) + "/oom_score_adj") >> of_worker;
    CHECK(of_worker == std::min(own + 100, 1000));
  }

  TEST_CASE("worker process: make_memory_private() does not change OOM scores") {
    RankProcesses ranks(1, [](int) -> std::string {
      if (::geteuid() == 0) become_user(kOtherUser);
      make_memory_private();
      make_memory_private();
      return oom_score_of_child(false) + oom_score_of_child(true) + oom_score_of_child(false) +
             read_text("/proc/self/oom_score_adj");
    });
    int own = 0;
    std::ifstream("/proc/self/oom_score_adj") >> own;
    const auto line = [](int score) { return std::to_string(score) + "\n"; };
    const auto of_child = line(std::min(own + 100, 1000));
    CHECK(ranks.wait(0).output == of_child + line(own) + of_child + line(own));
  }

  TEST_CASE("worker process: an agent started over ssh has private memory before its task") {
    RankProcesses ranks(1, [](int) -> std::string {
      const UniqueFd empty(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      ::dup2(empty.get(), STDIN_FILENO);
      try {
        ssh::read_agent_start();
      } catch (const Error&) {
      }
      return std::to_string(::prctl(PR_GET_DUMPABLE));
    });
    CHECK(ranks.wait(0).output == "0");
  }

  TEST_CASE("worker process: a worker runs on the assigned CPUs in the assigned folder") {
    // A container may lack the first CPUs.
    cpu_set_t allowed;
    REQUIRE(::sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    WorkerBench bench;
    auto spec = shell_worker(0, "grep Cpus_allowed_list /proc/self/status; pwd");
    spec.standard_output.prefix = "";
    spec.cpus = {cpu};
    spec.folder = bench.folder();
    bench.start({spec});
    bench.run_to_end();
    CHECK(bench.console() ==
          "Cpus_allowed_list:\t" + std::to_string(cpu) + "\n" + bench.folder().string() + "\n");
  }

  TEST_CASE("worker process: variables of the plan override those of the agent") {
    ::setenv("KEPT", "1", 1);
    ::setenv("REPLACED", "1", 1);
    WorkerBench bench;
    auto spec = shell_worker(0, "echo $KEPT $REPLACED $ADDED");
    spec.environment = {{"REPLACED", "2"}, {"ADDED", "3"}};
    bench.start({spec});
    bench.run_to_end();
    CHECK(bench.console() == "[w0]:1 2 3\n");
  }

  TEST_CASE("worker process: signals to the agent do not affect a start") {
    struct sigaction handler {
    }, before{};
    handler.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &handler, &before);
    WorkerBench bench(8);
    std::vector<WorkerSpec> workers;
    workers.reserve(8);
    for (int i = 0; i < 8; ++i) workers.push_back(shell_worker(i, "exit 0"));
    // Many signals during one exec.
    const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 50},
                          .it_value = {.tv_sec = 0, .tv_usec = 50}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    const auto result = bench.try_start(workers);
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    CHECK(std::holds_alternative<std::vector<WorkerStarted>>(result));
    bench.run_to_end();
    CHECK(bench.history().exited.size() == 8);
  }

  TEST_CASE("worker process: signals to the agent's process group do not end starting workers") {
    // Not the group of the program that runs the tests.
    REQUIRE(::setpgid(0, 0) == 0);
    struct sigaction handler {
    }, before{};
    handler.sa_handler = [](int) {};
    ::sigaction(SIGUSR2, &handler, &before);
    const pid_t own = ::getpid();
    const pid_t sender = ::fork();
    if (sender == 0) {
      while (::getppid() == own) ::kill(0, SIGUSR2);
      ::_exit(0);
    }
    REQUIRE(sender > 0);
    WorkerBench bench(16);
    std::vector<WorkerSpec> workers;
    workers.reserve(16);
    for (int i = 0; i < 16; ++i) workers.push_back(shell_worker(i, "exit 0"));
    const auto result = bench.try_start(workers);
    ::kill(sender, SIGKILL);
    // A signal of the sender may still be pending and interrupt the wait.
    while (::waitpid(sender, nullptr, 0) < 0 && errno == EINTR) {
    }
    ::sigaction(SIGUSR2, &before, nullptr);
    CHECK(std::holds_alternative<std::vector<WorkerStarted>>(result));
    bench.run_to_end();
    CHECK(bench.history().exited.size() == 16);
    for (const auto& exited : bench.history().exited) CHECK(exited.signal == 0);
  }

  TEST_CASE("worker process: a worker starts even if clone3() is not available") {
    boost::asio::io_context io;
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    Containment containment;
    ProcessRequest request;
    request.arguments = {"/bin/sleep", "1000"};
    request.standard_output = request.standard_error = null;
    request.cgroup_fd = containment.cgroup_fd();
    request.may_use_clone3 = false;
    auto result = WorkerProcess::start(io.get_executor(), request);
    ::close(null);
    REQUIRE(std::holds_alternative<WorkerProcess>(result));
    auto& process = std::get<WorkerProcess>(result);
    pollfd past_exec{.fd = process.exec_notice(), .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&past_exec, 1, 20'000) == 1);
    CHECK_FALSE(process.start_failure().has_value());
    CHECK(is_alive(process.pid()));
    if (containment.mode() == ContainmentMode::cgroup)
      CHECK(containment.members() == std::vector<pid_t>{process.pid()});
  }

  TEST_CASE("worker process: a process reaped by other code gets no signal") {
    const TemporaryFolder folder;
    const auto file = folder.path() / "pid";
    boost::asio::io_context io;
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ProcessRequest request;
    request.arguments = {"/bin/sh", "-c", "sleep 1000 & echo $! >" + file.string()};
    request.standard_output = request.standard_error = null;
    auto result = WorkerProcess::start(io.get_executor(), request);
    ::close(null);
    REQUIRE(std::holds_alternative<WorkerProcess>(result));
    auto& process = std::get<WorkerProcess>(result);
    const pid_t pid = process.pid();
    REQUIRE(::waitpid(pid, nullptr, 0) == pid);
    // In a group of the same number, as other processes may create.
    const pid_t other = std::stoi(await_line(file));
    CHECK(::getpgid(other) == pid);
    process.signal_group(SIGKILL);
    process.close(Deadline::after(0s));
    CHECK_FALSE(await_end(other, Deadline::after(100ms)));
    ::kill(other, SIGKILL);
    CHECK(await_end(other, Deadline::after(20s)));
  }

  TEST_CASE("worker process: a failed start is reported with the reason and a hint") {
    const TemporaryFolder folder;
    const auto executable = fs::perms::owner_all;
    const auto in = [&](const char* name) { return folder.path() / name; };
    struct Row {
      fs::path file;
      std::string expected;
    };
    const std::vector<Row> table = {
        {in("absent"), "the file does not exist"},
        {write_program(in("plain"), "#!/bin/sh\n", fs::perms::owner_read), "not executable"},
        {folder.path(), "it is a folder"},
        {write_program(in("interpreter"), "#!/no/such/python3 -u\n", executable),
         "its interpreter '/no/such/python3'"},
        {write_program(in("dos"), "#!/bin/sh\r\n", executable), "carriage return"},
        {write_program(in("text"), "hello\n", executable), "neither a program nor a script"},
        {write_program(in("empty"), "", executable), "the file is empty"},
        {write_program(in("foreign"), elf_of_another_machine(), executable), "built for riscv"},
        {in("plain") / "below", "not a folder"},
    };
    for (const auto& row : table) {
      const auto failure = failure_of(program(row.file));
      CAPTURE(failure.message);
      CHECK(failure.step == "exec");
      CHECK(failure.message.find(row.file.string()) != std::string::npos);
      CHECK(failure.message.find(row.expected) != std::string::npos);
    }
  }

  TEST_CASE("worker process: a failed start is reported with the failed step") {
    auto spec = shell_worker(0, "");
    spec.arguments.push_back(std::string(1 << 20, 'x'));
    CHECK(failure_of(spec).message.find("too long") != std::string::npos);
    spec = shell_worker(0, "");
    spec.folder = "/no/such/folder";
    CHECK(failure_of(spec).step == "chdir");
    CHECK(failure_of(spec).message.find("/no/such/folder") != std::string::npos);
    spec = shell_worker(0, "");
    spec.cpus = {1000};
    CHECK(failure_of(spec).step == "affinity");
  }

  TEST_CASE("worker process: a failed start ends the other workers") {
    WorkerBench bench(2);
    auto missing = program("/no/such/program");
    missing.rank = missing.local_rank = 1;
    const auto result = bench.try_start({shell_worker(0, "sleep 1000"), missing});
    REQUIRE(std::holds_alternative<WorkerNotStarted>(result));
    CHECK(std::get<WorkerNotStarted>(result).rank == 1);
    bench.run_until([&] { return bench.containment().members().empty(); });
    bench.run_to_end();
    CHECK(bench.history().exited.empty());
  }
}

}  // namespace worker_process_test
