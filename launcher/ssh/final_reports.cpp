#include "launcher/ssh/final_reports.hpp"

#include <algorithm>

namespace ddprun::ssh {

void FinalReports::add_line(std::uint32_t node, std::string_view line) {
  auto& report = unfinished_[node];
  if (report.has_ended || report.is_cut) return;
  report.is_cut = report.text.size() + line.size() + 1 > kFinalReportBytesMax;
  report.text.append(report.is_cut ? "... (cut off)" : line) += '\n';
}

void FinalReports::end(std::uint32_t node) {
  auto& report = unfinished_[node];
  if (std::exchange(report.has_ended, true)) return;
  auto text = std::exchange(report.text, {});
  const bool is_known = std::any_of(complete_.begin(), complete_.end(),
                                    [&](const auto& other) { return other.second == text; });
  if (!is_known) complete_.emplace_back(node, std::move(text));
}

std::vector<std::pair<std::uint32_t, std::string>> FinalReports::take() {
  return std::exchange(complete_, {});
}

}  // namespace ddprun::ssh
