#include "launcher/ssh/final_reports.hpp"

#include <algorithm>
#include <functional>

namespace ddprun::ssh {

namespace {

constexpr std::string_view kCutOff = "... (cut off)";

std::size_t combined(std::size_t hash, std::string_view line) {
  constexpr std::size_t kGolden = 0x9e3779b97f4a7c15;
  return hash ^ (std::hash<std::string_view>()(line) + kGolden + (hash << 6) + (hash >> 2));
}

}  // namespace

void FinalReports::add_line(std::uint32_t node, std::string_view line) {
  auto& report = unfinished_[node];
  if (report.has_ended || report.is_full) return;
  report.is_full = report.bytes + line.size() + 1 > kFinalReportBytesMax;
  append(report, report.is_full ? kCutOff : line);
}

void FinalReports::append(Report& report, std::string_view line) {
  report.bytes += line.size() + 1;
  report.hash = combined(report.hash, line);
  if (report.is_cut) return;
  report.is_cut = bytes_ + line.size() + 1 > kFinalReportsBytesMax;
  const auto before = report.text.size();
  report.text.append(report.is_cut ? kCutOff : line) += '\n';
  bytes_ += report.text.size() - before;
}

void FinalReports::end(std::uint32_t node) {
  auto& report = unfinished_[node];
  if (report.has_ended) return;
  Report ended = std::exchange(report, {.has_ended = true});
  if (is_known(ended)) {
    bytes_ -= ended.text.size();
  } else {
    by_hash_.emplace(ended.hash, complete_.size());
    complete_.emplace_back(node, std::move(ended));
  }
}

bool FinalReports::is_known(const Report& report) const {
  const auto [first, last] = by_hash_.equal_range(report.hash);
  return std::any_of(first, last, [&](const auto& index) {
    const Report& other = complete_[index.second].second;
    return report.is_cut || other.is_cut ? report.bytes == other.bytes : report.text == other.text;
  });
}

std::vector<std::pair<std::uint32_t, std::string>> FinalReports::take() {
  std::vector<std::pair<std::uint32_t, std::string>> taken;
  for (auto& [node, report] : std::exchange(complete_, {})) {
    bytes_ -= report.text.size();
    taken.emplace_back(node, std::move(report.text));
  }
  by_hash_.clear();
  return taken;
}

}  // namespace ddprun::ssh
