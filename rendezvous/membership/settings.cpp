#include "rendezvous/membership/settings.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/node_order.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun::membership {

Time first_notice(Time now) {
  constexpr std::chrono::milliseconds kStep(250);
  const auto since_step = now.time_since_epoch() % kStep;
  return now - since_step + 2 * kStep;
}

std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end(), natural_less);
  const auto count = names.size();
  names.resize(std::min(count, kNamesListedMax));
  auto text = join(names, ", ");
  if (count > names.size()) text += " and " + std::to_string(count - names.size()) + " more";
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  const auto tenths = (time.count() + 50) / 100;
  auto text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text + " s";
}

std::string counted_nodes(int count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

}  // namespace ddprun::membership
