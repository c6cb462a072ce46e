#include "launcher/ssh/common_words.hpp"

namespace ddprun::ssh {

bool CommonWords::is_news(std::uint32_t node, const std::string& text) {
  if (counts_.size() == kCommonTextsMax && !counts_.contains(text)) counts_.clear();
  auto& count = counts_[text];
  const int times = ++count.by_node[node];
  if (times <= count.most) return false;
  count.most = times;
  return true;
}

}  // namespace ddprun::ssh
