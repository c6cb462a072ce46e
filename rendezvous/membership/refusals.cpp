#include "rendezvous/membership/refusals.hpp"

#include <algorithm>
#include <bit>

namespace ddprun::membership {

namespace {

std::string refused(const std::string& name, const std::string& address) {
  if (name.empty() || name == address) return "refused " + address;
  return "refused " + name + " (" + address + ")";
}

}  // namespace

std::optional<std::string> Refusals::add(const std::string& name, const std::string& address,
                                         const std::string& reason) {
  auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) {
    return each.name == name && each.address == address && each.reason == reason;
  });
  const bool is_kept = entry != entries_.end() || entries_.size() < kRefusalsKept;
  if (entry == entries_.end() && is_kept) {
    entry = entries_.insert(entries_.end(), {name, address, reason});
  }
  const auto count = is_kept ? ++entry->count : ++others_;
  if (!std::has_single_bit(count)) return std::nullopt;
  const auto number = std::to_string(count);
  const auto line = refused(name, address) + ": " + reason;
  if (!is_kept)
    return line + " (" + number + " times so far, of nodes that are not counted one by one)";
  return count == 1 ? line : line + " (" + number + " times so far)";
}

void Refusals::forget(const std::string& name) {
  if (name.empty()) return;
  std::erase_if(entries_, [&](const Entry& each) { return each.name == name; });
}

std::vector<std::string> Refusals::summary() const {
  std::vector<std::string> lines;
  auto rest = others_;
  for (const auto& entry : entries_) {
    if (lines.size() == kRefusalsRepeated) {
      rest += entry.count;
      continue;
    }
    const auto times = entry.count == 1 ? "" : " " + std::to_string(entry.count) + " times";
    lines.push_back(refused(entry.name, entry.address) + times + ": " + entry.reason);
  }
  if (rest > 0) lines.push_back("refused others " + std::to_string(rest) + " times");
  return lines;
}

}  // namespace ddprun::membership
