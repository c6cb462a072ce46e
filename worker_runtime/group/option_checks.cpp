#include "worker_runtime/group/option_checks.hpp"

#include <ddprun/error.hpp>

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

std::string refuse_name(const std::string& name) {
  if (name.empty()) return "its name is empty";
  if (name.size() > kGroupNameBytesMax) {
    return "its name has " + std::to_string(name.size()) + " bytes, at most " +
           std::to_string(kGroupNameBytesMax) + " are possible";
  }
  const auto is_control = [](unsigned char byte) { return byte < ' ' || byte == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) return "its name has a control character";
  return {};
}

}  // namespace

std::string refuse_options(const GroupOptions& options) {
  for (const auto& [name, time] : {std::pair{"join_timeout", options.join_timeout},
                                   std::pair{"waiting_notice", options.waiting_notice},
                                   std::pair{"collective_timeout", options.collective_timeout}}) {
    if (time <= Deadline::Duration::zero()) return std::string(name) + " has to be above 0";
  }
  if (options.arena_bytes > kArenaBytesMax) {
    return "arena_bytes is " + std::to_string(options.arena_bytes) + ", must be at most " +
           std::to_string(kArenaBytesMax);
  }
  return refuse_name(options.name);
}

void check_group_options(const GroupOptions& options) {
  if (const auto refusal = refuse_options(options); !refusal.empty())
    throw Error(Errc::usage, "process group: " + refusal);
}

}  // namespace ddprun
