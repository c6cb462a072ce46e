// An agent in its own process, for tests that kill it and check what remains.
#pragma once

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/cgroup.hpp"
#include "launcher/process/proc_scan.hpp"
#include "tests/support/worker_bench.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun::test {

inline pid_t pid_in(const std::filesystem::path& file) {
  return std::stoi(await_line(file));
}

/// A script that starts a descendant in another session and writes its pid to the file.
inline std::string in_own_session(const std::filesystem::path& pid_file,
                                  const std::string& how = "") {
  return "setsid " + how + " sh -c 'echo $$ >" + pid_file.string() +
         "; exec sleep 1000' </dev/null >/dev/null 2>&1 & ";
}

inline std::filesystem::path cgroup_of_run(const std::string& word) {
  const auto own = own_cgroup(read_text("/proc/self/cgroup"), read_text("/proc/self/mounts"));
  return own ? own->folder / (kRunCgroupPrefix + word) : std::filesystem::path("/nowhere");
}

/// An agent with one worker that runs `script`. The destructor kills the agent, not its
/// descendants.
class AgentProcess {
 public:
  AgentProcess(ContainmentMode mode, const std::string& script) {
    const auto notes = folder_.path() / "notes";
    pid_ = ::fork();
    if (pid_ == 0) be_agent(mode, script, notes);
    std::istringstream words(await_line(notes));
    words >> word >> guardian >> worker;
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  ~AgentProcess() { kill(); }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  std::string word;  ///< of its marker
  pid_t guardian = -1;
  pid_t worker = -1;

 private:
  [[noreturn]] static void be_agent(ContainmentMode mode, const std::string& script,
                                    const std::filesystem::path& notes) {
    // A killed agent does not remove its files.
    ::setenv("TMPDIR", notes.parent_path().c_str(), 1);
    WorkerBench bench(1, mode);
    const auto started = bench.start({shell_worker(0, script)});
    std::ofstream(notes.string() + ".new")
        << bench.containment().marker().second << ' ' << bench.containment().guardian_pid() << ' '
        << started[0].pid << '\n';
    std::filesystem::rename(notes.string() + ".new", notes);
    while (true) ::pause();
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

}  // namespace ddprun::test
