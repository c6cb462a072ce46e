#include "worker_runtime/group/option_checks.hpp"

#include <ddprun/error.hpp>

#include <utility>

namespace ddprun {

std::string refuse_options(const GroupOptions& options) {
  for (const auto& [name, time] : {std::pair{"join_timeout", options.join_timeout},
                                   std::pair{"waiting_notice", options.waiting_notice},
                                   std::pair{"collective_timeout", options.collective_timeout}}) {
    if (time <= Deadline::Duration::zero()) return std::string(name) + " has to be above 0";
  }
  return {};
}

void check_group_options(const GroupOptions& options) {
  if (const auto refusal = refuse_options(options); !refusal.empty())
    throw Error(Errc::usage, "process group: " + refusal);
}

}  // namespace ddprun
