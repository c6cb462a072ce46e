#include "worker_runtime/ddp/rank_agreement.hpp"

#include "rendezvous/base/fnv1a.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ddprun {

namespace {

constexpr std::string_view kNothing = "nothing";

std::string_view item(const std::vector<std::string>& list, std::size_t index) {
  return index < list.size() ? std::string_view(list[index]) : kNothing;
}

std::string join_ranks(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

/// The items one after another, each with a zero byte at its end.
std::vector<std::uint8_t> pack(const std::vector<std::string>& list) {
  std::vector<std::uint8_t> bytes;
  for (const auto& text : list) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    bytes.push_back(0);
  }
  return bytes;
}

std::vector<std::string> unpack(std::span<const std::uint8_t> bytes) {
  std::vector<std::string> list;
  while (!bytes.empty()) {
    const auto end = std::find(bytes.begin(), bytes.end(), std::uint8_t{0});
    list.emplace_back(bytes.begin(), end);
    bytes = bytes.subspan(std::min(list.back().size() + 1, bytes.size()));
  }
  return list;
}

std::uint64_t hash(std::span<const std::uint8_t> bytes) {
  return fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

struct Summary {
  std::int64_t bytes;
  std::int64_t hash;

  bool operator==(const Summary&) const = default;
};

std::vector<Summary> gather_summaries(ProcessGroup& group, const std::vector<std::uint8_t>& own) {
  std::array<std::int64_t, 2> mine = {static_cast<std::int64_t>(own.size()),
                                      static_cast<std::int64_t>(hash(own))};
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(group.size()));
  const Work work =
      group.all_gather(as_buffer(mine.data(), mine.size()), as_buffer(all.data(), all.size()));
  work.wait();
  std::vector<Summary> summaries;
  for (std::size_t i = 0; i < all.size(); i += 2) summaries.push_back({all[i], all[i + 1]});
  return summaries;
}

std::vector<std::vector<std::string>> gather_lists(ProcessGroup& group,
                                                   std::span<const Summary> summaries,
                                                   std::vector<std::uint8_t> own) {
  std::int64_t longest = 0;
  for (const auto& summary : summaries) longest = std::max(longest, summary.bytes);
  const auto stride = static_cast<std::size_t>(longest);
  if (stride * summaries.size() > kAgreementBytesMax) return {};
  own.resize(stride);
  std::vector<std::uint8_t> all(stride * summaries.size());
  const Work work =
      group.all_gather(as_buffer(own.data(), own.size()), as_buffer(all.data(), all.size()));
  work.wait();
  std::vector<std::vector<std::string>> lists;
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    const auto bytes = static_cast<std::size_t>(summaries[rank].bytes);
    lists.push_back(unpack(std::span(all).subspan(rank * stride, bytes)));
  }
  return lists;
}

}  // namespace

std::string describe_disagreement(std::span<const std::vector<std::string>> lists) {
  std::size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  for (std::size_t i = 0; i < longest; ++i) {
    const auto expected = item(lists[0], i);
    std::vector<std::size_t> differing;
    for (std::size_t rank = 1; rank < lists.size(); ++rank) {
      if (item(lists[rank], i) != expected) differing.push_back(rank);
    }
    if (differing.empty()) continue;
    // One example of what the others have says enough.
    const auto other = item(lists[differing.front()], i);
    return "rank 0 has " + std::string(expected) + ", " + join_ranks(differing) +
           (differing.size() == 1
                ? " has "
                : " differ, rank " + std::to_string(differing.front()) + " has ") +
           std::string(other);
  }
  return {};
}

void require_agreement(ProcessGroup& group, const std::string& subject,
                       const std::vector<std::string>& list) {
  auto own = pack(list);
  const auto summaries = gather_summaries(group, own);
  const bool agreed = std::all_of(summaries.begin(), summaries.end(),
                                  [&](const Summary& other) { return other == summaries[0]; });
  if (agreed) return;
  const auto lists = gather_lists(group, summaries, std::move(own));
  const auto difference = describe_disagreement(lists);
  throw Error(Errc::usage, subject + ": the ranks differ: " +
                               (difference.empty() ? "too much to say in what" : difference));
}

}  // namespace ddprun
