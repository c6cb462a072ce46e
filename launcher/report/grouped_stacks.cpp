#include "launcher/report/grouped_stacks.hpp"

#include "launcher/report/event_text.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace ddprun {

namespace {

bool is_hex_digit(char letter) {
  return std::isxdigit(static_cast<unsigned char>(letter)) != 0;
}

bool is_digit(char letter) {
  return std::isdigit(static_cast<unsigned char>(letter)) != 0;
}

std::string without_addresses(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    text += line[i];
    if (!text.ends_with("0x")) continue;
    while (i + 1 < line.size() && is_hex_digit(line[i + 1])) ++i;
  }
  return text;
}

/// Returns the heading of a thread without its numbers and its state, which is in parentheses.
std::string comparable_heading(std::string_view line) {
  std::string text;
  int depth = 0;
  for (const char letter : line) {
    if (letter == '(') ++depth;
    if (depth == 0 && !is_digit(letter)) text += letter;
    if (letter == ')' && depth > 0) --depth;
  }
  return text;
}

std::string comparable(const StacksTaken& taken) {
  std::string text;
  for (const auto& line : taken.lines) {
    text += line.starts_with("Thread ") ? comparable_heading(line) : without_addresses(line);
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<StacksTaken> grouped_stacks(std::vector<StacksTaken> all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  using Key = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>, bool>;
  std::map<Key, std::size_t> positions;
  std::vector<StacksTaken> groups;
  for (auto& taken : all) {
    const auto [position, is_new] = positions.try_emplace(
        Key{comparable(taken), taken.means, taken.problems, taken.was_ended}, groups.size());
    if (is_new) {
      groups.push_back(std::move(taken));
    } else {
      auto& same = groups[position->second].same;
      same.push_back(taken.rank);
      std::copy(taken.same.begin(), taken.same.end(), std::back_inserter(same));
    }
  }
  for (auto& group : groups) std::sort(group.same.begin(), group.same.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.same.size() < b.same.size(); });
  return groups;
}

std::string short_ranks(const StacksTaken& taken) {
  constexpr std::size_t kShortColumnsMax = 20;
  auto text = ranks_phrase(ranks_of(taken));
  return text.size() <= kShortColumnsMax ? text : std::to_string(taken.same.size() + 1) + " ranks";
}

std::vector<int> ranks_of(const StacksTaken& taken) {
  std::vector<int> ranks = {taken.rank};
  ranks.insert(ranks.end(), taken.same.begin(), taken.same.end());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace ddprun
