// Names of a group's ranks and collectives in messages. A subgroup has its own ranks, but messages
// name the ranks among all workers. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class RankNames {
 public:
  /// Rank r of the group is rank r of all workers.
  RankNames() = default;

  /// Rank r of the group is rank workers[r] of all workers; empty: as above.
  /// `group`: the group's name.
  explicit RankNames(std::vector<int> workers, std::string group = {})
      : workers_(std::move(workers)), group_(std::move(group)) {}

  /// Returns names for indices that start at rank `first` of the group.
  RankNames from(int first) const {
    RankNames names = *this;
    names.first_ += first;
    return names;
  }

  /// Returns the rank among all workers.
  int number(int rank) const {
    const int own = first_ + rank;
    return workers_.empty() ? own : workers_[static_cast<std::size_t>(own)];
  }

  /// Returns text such as "rank 5".
  std::string name(int rank) const { return "rank " + std::to_string(number(rank)); }

  /// Returns text such as "collective 5 of group "default"".
  std::string collective(std::uint64_t number) const {
    return "collective " + std::to_string(number) + " of group \"" + group_ + "\"";
  }

  /// Returns text such as "1, 3".
  std::string list(const std::vector<int>& ranks) const {
    std::string text;
    for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(number(rank));
    return text;
  }

 private:
  std::vector<int> workers_;
  std::string group_;
  int first_ = 0;
};

}  // namespace ddprun
