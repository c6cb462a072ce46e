#include "worker_runtime/group/registry.hpp"

#include "worker_runtime/backends/host/host_backend.hpp"
#include "worker_runtime/backends/module/module_backend.hpp"
#include <ddprun/error.hpp>

#include <array>

namespace ddprun {

namespace {

template <const char* Name>
std::unique_ptr<Backend> create_module(const WorkerEnv& env, const GroupOptions& options,
                                       Deadline) {
  return create_module_backend(Name, env, options);
}

template <const char* Name>
std::string module_reason(const WorkerEnv&) {
  return module_unavailable_reason(Name);
}

constexpr char kGloo[] = "gloo";

constexpr std::array kBackends = {
    BackendEntry{"host", create_host_backend, host_unavailable_reason},
    BackendEntry{kGloo, create_module<kGloo>, module_reason<kGloo>},
};

}  // namespace

std::span<const BackendEntry> backend_entries() {
  return kBackends;
}

const BackendEntry& choose_backend(const WorkerEnv& env, const GroupOptions& options) {
  const std::string group = "process group \"" + options.name + "\": ";
  std::string names;
  std::string reasons;
  for (const auto& entry : backend_entries()) {
    const bool is_wanted = options.backend == "auto" || options.backend == entry.name;
    names += std::string(", ") + entry.name;
    if (!is_wanted) continue;
    const std::string reason = entry.unavailable_reason(env);
    if (reason.empty()) return entry;
    reasons += (reasons.empty() ? "" : "; ") + std::string("backend ") + entry.name +
               " cannot be used: " + reason;
  }
  if (!reasons.empty()) throw Error(Errc::usage, group + reasons);
  throw Error(Errc::usage,
              group + "there is no backend \"" + options.backend + "\" (known: auto" + names + ")");
}

}  // namespace ddprun
