#include "worker_runtime/ddp/input_count.hpp"

#include <string>
#include <vector>

namespace ddprun {

namespace {

constexpr std::int32_t kTakesPart = 1;
constexpr std::int32_t kSynchronises = 2;

StepPartners count(std::span<const std::int32_t> flags) {
  StepPartners partners;
  int synchronising = 0;
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == 0) continue;
    if (partners.active++ == 0) partners.first = static_cast<int>(rank);
    partners.last = static_cast<int>(rank);
    if ((flags[rank] & kSynchronises) != 0) ++synchronising;
  }
  if (synchronising != 0 && synchronising != partners.active) {
    throw Error(Errc::usage, "GradientReducer: " + std::to_string(synchronising) + " of " +
                                 std::to_string(partners.active) +
                                 " ranks synchronise in this step, the others do not");
  }
  partners.synchronise = synchronising > 0;
  return partners;
}

std::string describe_idle(std::span<const std::int32_t> flags) {
  std::string text;
  int idle = 0;
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == 0) text += (idle++ == 0 ? " " : ", ") + std::to_string(rank);
  }
  return (idle == 1 ? "rank" : "ranks") + text + (idle == 1 ? " has" : " have");
}

}  // namespace

StepPartners InputCount::announce(ProcessGroup& group, bool takes_part, bool synchronise) const {
  if (policy_ == UnevenInputs::none || group.size() == 1) {
    return {.active = takes_part ? group.size() : 0,
            .last = group.size() - 1,
            .synchronise = synchronise};
  }
  std::int32_t own =
      (takes_part ? kTakesPart : 0) | (takes_part && synchronise ? kSynchronises : 0);
  std::vector<std::int32_t> flags(static_cast<std::size_t>(group.size()));
  group.all_gather(as_buffer(&own, 1), as_buffer(flags.data(), flags.size())).wait();
  const StepPartners partners = count(flags);
  if (policy_ == UnevenInputs::throw_early && partners.active > 0 &&
      partners.active < group.size()) {
    throw Error(Errc::usage, "GradientReducer: " + describe_idle(flags) +
                                 " no more input, but other ranks have; all ranks stop");
  }
  return partners;
}

}  // namespace ddprun
