#include "launcher/ssh/tree.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun::ssh {

std::vector<Branch> plan_branches(const std::vector<std::size_t>& nodes, std::size_t fan_out) {
  const auto count = std::min(nodes.size(), std::max<std::size_t>(fan_out, 1));
  std::vector<Branch> branches;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = nodes.begin() + static_cast<std::ptrdiff_t>(i * nodes.size() / count);
    const auto end = nodes.begin() + static_cast<std::ptrdiff_t>((i + 1) * nodes.size() / count);
    branches.push_back({*begin, {std::next(begin), end}});
  }
  return branches;
}

}  // namespace ddprun::ssh
