// ddprun-preflight [FILE]: one rank of a node's health check. The agent starts one per worker
// before it starts the workers. Writes its report to FILE, or to standard output.
#include "rendezvous/base/held_path.hpp"
#include "rendezvous/base/preflight_limits.hpp"
#include "rendezvous/base/preflight_report.hpp"
#include "worker_runtime/preflight/gpu_exam.hpp"
#include "worker_runtime/preflight/node_check.hpp"
#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <unistd.h>
#include <vector>

namespace ddprun {

namespace {

/// Other ranks may wait for their devices, and must be able to report that these do not respond.
constexpr auto kShareTimeout = 2 * kPreflightExamLimit;

void write_report(const PreflightReport& report, const char* path) {
  const auto lines = to_lines(report);
  if (path == nullptr) {
    if (std::fputs(lines.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      throw_system_error("standard output", errno);
    return;
  }
  // The agent passes a path without symbolic links. A file that exists or is reached through a link
  // belongs to another user with write access to the directory.
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto beneath = std::filesystem::absolute(path).lexically_normal().relative_path();
  const auto file = open_beneath(root.get(), beneath, O_WRONLY | O_CREAT | O_EXCL, 0644);
  const auto bytes = static_cast<ssize_t>(lines.size());
  const auto written = file.get() < 0 ? -1 : ::write(file.get(), lines.data(), lines.size());
  if (written != bytes) throw_system_error(path, written < 0 ? errno : ENOSPC);
}

/// Creates a separate group: a failed exchange ends its group, and ranks must still share results.
ProcessGroup connect(const WorkerEnv& env, const preflight::Exam& exam, ProcessGroup host) {
  if (exam.device.kind == Device::Kind::cpu) {
    std::vector<int> all(static_cast<std::size_t>(host.size()));
    std::iota(all.begin(), all.end(), 0);
    return *host.new_group(all);
  }
  GroupOptions options;
  options.backend = "nccl";
  options.name = "preflight_devices";
  options.collective_timeout = kShareTimeout;
  options.join_timeout = kPreflightJoinLimit;
  return ProcessGroup::create(env, options);
}

/// Waits for all ranks, since a rank that ends early may be considered dead, and then the others
/// would be stopped before they have reported.
void leave_together(ProcessGroup host) {
  try {
    host.barrier().wait();
  } catch (const Error&) {
    // Another rank has failed, which the agent detects.
  }
}

int check(const WorkerEnv& env, const char* path) {
  GroupOptions options;
  options.backend = "host";
  options.name = "preflight";
  options.join_timeout = kPreflightJoinLimit;
  options.collective_timeout = kShareTimeout;
  const auto host = ProcessGroup::create(env, options);
  const preflight::NodeCheck check{
      .examine = [&](preflight::Progress& progress) { return examine_own(env, progress); },
      .connect = [&](const preflight::Exam& exam) { return connect(env, exam, host); }};
  const auto result = preflight::check_node(host, check);
  write_report(result.report, path);
  leave_together(host);
  // A normal exit would wait for the thread that is blocked in the driver.
  if (result.is_hung) std::_Exit(EXIT_SUCCESS);
  return EXIT_SUCCESS;
}

}  // namespace

}  // namespace ddprun

int main(int argc, char** argv) {
  const char* const path = argc > 1 ? argv[1] : nullptr;
  return ddprun::run_worker([&](const ddprun::WorkerEnv& env) { return ddprun::check(env, path); });
}
