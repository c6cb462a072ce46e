#include "launcher/agent/start_check.hpp"

#include "launcher/agent/run_folder.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/exec_failure.hpp"
#include "rendezvous/base/problem.hpp"
#include "rendezvous/security/secret.hpp"
#include "rendezvous/security/tls.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

/// Returns the remedy for an unreadable file, or an empty text if it can be read.
std::string remedy_for_secret(const std::string& path) {
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) {
    return "; 'ddprun keygen " + path + "' writes one, which all nodes need";
  }
  if (::access(path.c_str(), R_OK) == 0 || errno != EACCES) return {};
  return "; give a copy that belongs to user " + std::to_string(::geteuid()) +
         ", in a folder that this user may enter";
}

/// Returns why the secret cannot be used. Appends to `warnings` if it is weak.
Problem problem_of_secret(const std::string& path, std::vector<std::string>& warnings) {
  const auto origin = "--secret_file=" + path;
  try {
    const auto secret = security::read_secret(path, origin);
    if (secret.different_bytes() < security::kDifferentBytesMin) {
      warnings.push_back(origin + ": has fewer than " +
                         std::to_string(security::kDifferentBytesMin) +
                         " different bytes and can be guessed; 'ddprun keygen FILE' writes a "
                         "random one");
    }
  } catch (const Error& error) {
    return error.what() + remedy_for_secret(path);
  }
  return std::nullopt;
}

Problem problem_of_tls(const security::TlsFiles& files) {
  try {
    const security::TlsContext context(files, "--rdzv_conf=");
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

/// Returns why the run's folder cannot be created in its nearest existing parent.
Problem problem_of_log_folder(const fs::path& run_folder) {
  fs::path folder = run_folder;
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) {
    if (const auto target = fs::read_symlink(folder, ignored); !target.empty()) {
      return "--log_dir: " + folder.string() + " is a symbolic link to " + target.string() +
             ", which is not an accessible folder; create that folder, or correct the link";
    }
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, ignored)) return no_log_folder(run_folder, std::strerror(ENOTDIR));
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return no_log_folder(run_folder, std::strerror(errno));
}

Problem problem_of_events(const fs::path& file) {
  const auto folder = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  std::error_code ignored;
  int error = 0;
  if (fs::is_directory(file, ignored)) {
    error = EISDIR;
  } else if (::access(file.c_str(), W_OK) != 0 &&
             (errno != ENOENT || ::access(folder.c_str(), W_OK | X_OK) != 0)) {
    error = errno;
  }
  if (error == 0) return std::nullopt;
  return "--events=" + file.string() + ": cannot be written: " + std::strerror(error);
}

Problem problem_of_program(const LaunchPlan& plan) {
  if (plan.options.program.empty() || plan.workers.empty()) return std::nullopt;
  const auto& program = plan.workers.front().arguments.front();
  const auto problem = problem_of_format(program);
  return problem ? Problem(program + ": " + *problem) : std::nullopt;
}

}  // namespace

void check_start(LaunchPlan& plan, std::vector<std::string>& problems) {
  const auto add = [&problems](Problem problem) {
    if (problem) problems.push_back(std::move(*problem));
  };
  if (plan.nodes && !plan.options.secret_file.empty()) {
    add(problem_of_secret(plan.options.secret_file, plan.warnings));
  }
  if (plan.nodes && plan.nodes->etcd && plan.nodes->etcd->tls) {
    const auto& files = *plan.nodes->etcd->tls;
    add(problem_of_tls({.authorities = files.authorities}));
    if (!files.certificate.empty()) {
      add(problem_of_tls({.certificate = files.certificate, .key = files.key}));
    }
  }
  if (plan.log_dir && !plan.is_log_dir_temporary) {
    add(problem_of_log_folder(run_folder(*plan.log_dir, plan)));
  }
  add(problem_of_program(plan));
  if (!plan.options.events.empty()) add(problem_of_events(plan.options.events));
}

}  // namespace ddprun
