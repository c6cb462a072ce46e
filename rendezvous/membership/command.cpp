#include "rendezvous/membership/command.hpp"

#include "rendezvous/base/fnv1a.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

// Characters shown before the first difference, usually an option's name.
constexpr std::size_t kShownBefore = 40;
constexpr std::size_t kShown = 120;
constexpr const char* kLeftOut = "...";

std::string part_from(const std::string& command, std::size_t begin) {
  const auto part = command.substr(std::min(begin, command.size()), kShown);
  const bool is_cut = begin + part.size() < command.size();
  return (begin > 0 ? kLeftOut : "") + part + (is_cut ? kLeftOut : "");
}

}  // namespace

std::string bounded_command(const std::string& command) {
  if (command.size() <= kCommandBytesMax) return command;
  return command.substr(0, kCommandBytesMax) + kLeftOut + " (" + std::to_string(command.size()) +
         " bytes, hash " + std::to_string(fnv1a(command)) + ")";
}

std::string describe_difference(const std::string& node, const std::string& command,
                                const std::string& other_node, const std::string& other_command) {
  const auto [mine, other] =
      std::mismatch(command.begin(), command.end(), other_command.begin(), other_command.end());
  const auto same = static_cast<std::size_t>(mine - command.begin());
  // Start at a word boundary.
  const auto space =
      same < kShownBefore ? std::string::npos : command.rfind(' ', same - kShownBefore);
  const auto begin = space == std::string::npos ? 0 : space + 1;
  return node + " runs \"" + part_from(command, begin) + "\" and " + other_node + " \"" +
         part_from(other_command, begin) + "\"; nodes of one run should run the same";
}

}  // namespace ddprun::membership
