#include "launcher/ssh/common_words.hpp"

namespace ddprun::ssh {

bool CommonWords::is_news(std::uint32_t node, const std::string& text) {
  if (bytes_ + text.size() + 2 * kCommonEntryBytes > kCommonBytesMax) {
    counts_.clear();
    bytes_ = 0;
  }
  const auto [found, is_new_text] = counts_.try_emplace(text);
  auto& count = found->second;
  const auto [said, is_new_node] = count.by_node.try_emplace(node);
  if (is_new_text) bytes_ += text.size() + kCommonEntryBytes;
  if (is_new_node) bytes_ += kCommonEntryBytes;
  const int times = ++said->second;
  if (times <= count.most) return false;
  count.most = times;
  return true;
}

}  // namespace ddprun::ssh
