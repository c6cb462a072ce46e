#include "rendezvous/base/fnv1a.hpp"
#include <ddprun/rank_agreement.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ddprun {

namespace {

const Fact* item(const std::vector<Fact>& list, std::size_t index) {
  return index < list.size() ? &list[index] : nullptr;
}

bool is_same(const Fact* a, const Fact* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

/// Returns text such as "rank 1", "ranks 1, 2 and 5".
std::string join_ranks(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

/// Describes a difference between rank 0 (`expected`) and other ranks; either fact may be missing.
std::string describe_difference(const Fact* expected, const Fact* other,
                                const std::vector<std::size_t>& ranks) {
  const std::string they = join_ranks(ranks);
  const std::string have = ranks.size() == 1 ? " has " : " have ";
  if (other == nullptr)
    return they + (ranks.size() == 1 ? " lacks " : " lack ") + expected->thing + " of rank 0";
  if (expected == nullptr) return they + have + other->thing + ", which rank 0 lacks";
  if (expected->thing != other->thing)
    return they + have + other->thing + " where rank 0 has " + expected->thing;
  return other->thing + " is " + other->value + " on " + they + ", " + expected->value +
         " on rank 0";
}

/// Returns all things and values in order, each with a terminating zero byte.
std::vector<std::uint8_t> pack(const std::vector<Fact>& list) {
  std::vector<std::uint8_t> bytes;
  for (const auto& fact : list) {
    for (const auto* text : {&fact.thing, &fact.value}) {
      std::replace_copy(text->begin(), text->end(), std::back_inserter(bytes), '\0', '?');
      bytes.push_back(0);
    }
  }
  return bytes;
}

std::string unpack_text(std::span<const std::uint8_t>& bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::string text(bytes.begin(), end);
  bytes = bytes.subspan(std::min(text.size() + 1, bytes.size()));
  return text;
}

std::vector<Fact> unpack(std::span<const std::uint8_t> bytes) {
  std::vector<Fact> list;
  while (!bytes.empty()) {
    std::string thing = unpack_text(bytes);
    list.push_back({std::move(thing), unpack_text(bytes)});
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

std::vector<std::vector<Fact>> gather_lists(ProcessGroup& group, std::span<const Summary> summaries,
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
  std::vector<std::vector<Fact>> lists;
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    const auto bytes = static_cast<std::size_t>(summaries[rank].bytes);
    lists.push_back(unpack(std::span(all).subspan(rank * stride, bytes)));
  }
  return lists;
}

}  // namespace

std::string describe_disagreement(std::span<const std::vector<Fact>> lists) {
  std::size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  for (std::size_t i = 0; i < longest; ++i) {
    const Fact* const expected = item(lists[0], i);
    // Names all ranks with the same difference as the first one.
    const Fact* other = nullptr;
    std::vector<std::size_t> alike;
    std::vector<std::size_t> further;
    for (std::size_t rank = 1; rank < lists.size(); ++rank) {
      const Fact* const own = item(lists[rank], i);
      if (is_same(own, expected)) continue;
      if (alike.empty()) other = own;
      (is_same(own, other) ? alike : further).push_back(rank);
    }
    if (alike.empty()) continue;
    const std::string text = describe_difference(expected, other, alike);
    if (further.empty()) return text;
    return text + " (" + join_ranks(further) +
           (further.size() == 1 ? " differs, too)" : " differ, too)");
  }
  return {};
}

void require_agreement(ProcessGroup& group, const std::string& subject,
                       const std::vector<Fact>& list) {
  auto own = pack(list);
  const auto summaries = gather_summaries(group, own);
  const bool agreed = std::all_of(summaries.begin(), summaries.end(),
                                  [&](const Summary& other) { return other == summaries[0]; });
  if (agreed) return;
  const auto lists = gather_lists(group, summaries, std::move(own));
  const auto difference = describe_disagreement(lists);
  throw Error(Errc::usage, subject + ": the ranks differ: " +
                               (difference.empty() ? "too many differences to list" : difference));
}

}  // namespace ddprun
