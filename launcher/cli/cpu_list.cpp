#include "launcher/cli/cpu_list.hpp"

#include "rendezvous/base/text.hpp"

#include <charconv>

namespace ddprun {

namespace {

// Linux' limit (CONFIG_NR_CPUS); larger numbers are invalid.
constexpr int kCpuMax = 8191;

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return cpus;
  for (const auto& part : split(text, ',')) {
    const auto ends = split(part, '-');
    int range[2] = {0, 0};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& number = i == 0 ? ends.front() : ends.back();
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), range[i]);
      if (error != std::errc() || end != number.data() + number.size() || range[i] < 0 ||
          range[i] > kCpuMax || ends.size() > 2) {
        return {};
      }
    }
    for (int cpu = range[0]; cpu <= range[1]; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    parts.push_back(std::to_string(cpus[i]) + (last > i ? "-" + std::to_string(cpus[last]) : ""));
    i = last + 1;
  }
  return join(parts, ",");
}

}  // namespace ddprun
