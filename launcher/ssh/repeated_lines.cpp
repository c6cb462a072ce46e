#include "launcher/ssh/repeated_lines.hpp"

namespace ddprun::ssh {

bool RepeatedLines::is_new(std::uint32_t node, const std::string& text) {
  if (bytes_ + text.size() + 2 * kRepeatedEntryBytes > kRepeatedBytesMax) {
    counts_.clear();
    bytes_ = 0;
  }
  const auto [found, is_new_text] = counts_.try_emplace(text);
  auto& count = found->second;
  const auto [own, is_new_node] = count.by_node.try_emplace(node);
  if (is_new_text) bytes_ += text.size() + kRepeatedEntryBytes;
  if (is_new_node) bytes_ += kRepeatedEntryBytes;
  const int times = ++own->second;
  if (times <= count.most) return false;
  count.most = times;
  return true;
}

}  // namespace ddprun::ssh
