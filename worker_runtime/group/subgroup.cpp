#include "worker_runtime/group/subgroup.hpp"

#include "rendezvous/base/fnv1a.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace ddprun {

namespace {

/// Arguments of a rank. The digest covers ranks and name; the text is for messages.
struct Proposal {
  std::uint64_t digest = 0;
  std::int32_t node = 0;
  std::uint32_t is_refusal = 0;
  std::array<char, 112> text = {};

  std::string described() const { return {text.data(), ::strnlen(text.data(), text.size())}; }
};
static_assert(sizeof(Proposal) == 128);

/// Returns text such as "0-3, 8".
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

Proposal propose(const Subgroup& own) {
  const bool is_refusal = !own.refusal.empty();
  const std::string text =
      is_refusal ? own.refusal : "\"" + own.name + "\" of ranks " + list(own.ranks);
  Proposal proposal{.digest = fnv1a(text), .node = own.own_node, .is_refusal = is_refusal};
  const std::size_t room = proposal.text.size();
  const std::string shown = text.size() <= room ? text : text.substr(0, room - 3) + "...";
  std::copy(shown.begin(), shown.end(), proposal.text.begin());
  return proposal;
}

Buffer bytes_of(Proposal* proposals, std::size_t count) {
  return as_buffer(reinterpret_cast<std::uint8_t*>(proposals), count * sizeof(Proposal));
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::usage, "new_group: " + what);
}

/// Throws if the proposals differ or one of them is a refusal.
void check(const std::vector<Proposal>& all) {
  const auto other = std::find_if(all.begin(), all.end(), [&](const Proposal& proposal) {
    return proposal.digest != all.front().digest;
  });
  const auto refused = std::find_if(
      all.begin(), all.end(), [](const Proposal& proposal) { return proposal.is_refusal != 0; });
  const auto name = [&](auto proposal) { return "rank " + std::to_string(proposal - all.begin()); };
  if (other == all.end() && refused == all.end()) return;
  if (other == all.end()) refuse(refused->described());
  if (refused != all.end())
    refuse(name(refused) + " cannot create its group: " + refused->described());
  refuse("rank 0 creates group " + all.front().described() + ", but " + name(other) +
         " creates group " + other->described() +
         " (all ranks must create the same groups in the same order, including groups without "
         "them)");
}

}  // namespace

std::string refuse_ranks(const std::vector<int>& ranks, int size) {
  if (ranks.empty()) return "a group needs at least one rank";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= size)
      return "rank " + std::to_string(ranks[i]) + " is not within 0.." + std::to_string(size - 1);
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      return "ranks must be ascending and unique: " + std::to_string(ranks[i]) + " follows " +
             std::to_string(ranks[i - 1]);
    }
  }
  return {};
}

std::vector<int> agree_on_subgroup(const ShareAmongAll& share, int size, const Subgroup& wanted) {
  Proposal own = propose(wanted);
  std::vector<Proposal> all(static_cast<std::size_t>(size));
  share(bytes_of(&own, 1), bytes_of(all.data(), all.size()));
  check(all);
  std::vector<int> nodes;
  for (const auto& proposal : all) nodes.push_back(proposal.node);
  return nodes;
}

}  // namespace ddprun
