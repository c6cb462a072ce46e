#include "worker_runtime/group/subgroup.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

namespace ddprun {

namespace {

/// What a rank says. Ranks and name in full are told by the digest, the text is for people.
struct Proposal {
  std::uint64_t digest = 0;
  std::int32_t node = 0;
  std::array<char, 116> text = {};

  std::string described() const { return {text.data(), ::strnlen(text.data(), text.size())}; }
};
static_assert(sizeof(Proposal) == 128);

/// "0-3, 8".
std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

Proposal propose(const std::string& name, const std::vector<int>& ranks, int node) {
  const std::string text = "\"" + name + "\" of ranks " + list(ranks);
  Proposal proposal{.digest = std::hash<std::string>()(text), .node = node};
  const std::size_t room = proposal.text.size();
  const std::string shown = text.size() <= room ? text : text.substr(0, room - 3) + "...";
  std::copy(shown.begin(), shown.end(), proposal.text.begin());
  return proposal;
}

Buffer bytes_of(Proposal* proposals, std::size_t count) {
  return as_buffer(reinterpret_cast<std::uint8_t*>(proposals), count * sizeof(Proposal));
}

}  // namespace

void check_subgroup(const std::vector<int>& ranks, int size) {
  const auto refuse = [](const std::string& what) {
    throw Error(Errc::usage, "new_group: " + what);
  };
  if (ranks.empty()) refuse("a group needs a rank at least");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size) {
      refuse("rank " + std::to_string(ranks[i]) + " is not within 0.." + std::to_string(size - 1));
    }
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      refuse("the ranks have to be in ascending order, each once, and " + std::to_string(ranks[i]) +
             " comes after " + std::to_string(ranks[i - 1]));
    }
  }
}

std::vector<int> agree_on_subgroup(ProcessGroup& parent, const std::string& name,
                                   const std::vector<int>& ranks, int own_node) {
  Proposal own = propose(name, ranks, own_node);
  std::vector<Proposal> all(static_cast<std::size_t>(parent.size()));
  parent.all_gather(bytes_of(&own, 1), bytes_of(all.data(), all.size())).wait();
  const auto other = std::find_if(all.begin(), all.end(), [&](const Proposal& proposal) {
    return proposal.digest != all.front().digest;
  });
  if (other != all.end()) {
    throw Error(Errc::usage,
                "new_group: rank 0 makes group " + all.front().described() + ", but rank " +
                    std::to_string(other - all.begin()) + " makes group " + other->described() +
                    " (all ranks have to make the same groups in the same order, also those that "
                    "they are not in)");
  }
  std::vector<int> nodes;
  for (const auto& proposal : all) nodes.push_back(proposal.node);
  return nodes;
}

}  // namespace ddprun
