#include "launcher/ssh/node_report.hpp"

#include "launcher/ssh/task.hpp"
#include "rendezvous/wire/bytes.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::ssh {

namespace {

using Kind = NodeReport::Kind;

// Kind, node, exit code, length.
constexpr std::size_t kHeaderBytes = 1 + 4 + 4 + 4;

bool is_kind(char byte) {
  return byte >= static_cast<char>(Kind::standard_output) && byte <= static_cast<char>(Kind::lost);
}

}  // namespace

std::string encode(const NodeReport& report) {
  std::string bytes(1, static_cast<char>(report.kind));
  const auto text = std::string_view(report.text).substr(0, kReportBytesMax);
  wire::append_integer(bytes, report.node);
  wire::append_integer(bytes, std::int32_t{report.exit_code});
  wire::append_integer(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes.append(text);
}

std::vector<NodeReport> ReportReader::take(std::string_view bytes) {
  std::vector<NodeReport> reports;
  if (is_broken_) return reports;
  pending_ += bytes;
  if (!has_greeting_ && !find_greeting()) return reports;
  for (NodeReport report; next(report);) reports.push_back(std::move(report));
  return reports;
}

std::string ReportReader::take_noise() {
  return std::exchange(noise_, {});
}

bool ReportReader::find_greeting() {
  const auto at = pending_.find(kGreeting);
  has_greeting_ = at != std::string::npos;
  // Its beginning may have come already.
  const auto kept = std::min(pending_.size(), kGreeting.size() - 1);
  const auto noise = has_greeting_ ? at : pending_.size() - kept;
  noise_ += pending_.substr(0, noise);
  noise_bytes_ += noise;
  pending_.erase(0, noise + (has_greeting_ ? kGreeting.size() : 0));
  if (noise_bytes_ > kNoiseBytesMax) is_broken_ = true;
  return has_greeting_ && !is_broken_;
}

bool ReportReader::next(NodeReport& report) {
  if (is_broken_ || pending_.size() < kHeaderBytes) return false;
  const char* header = pending_.data();
  const auto size = wire::load_integer<std::uint32_t>(header + 9);
  if (!is_kind(header[0]) || size > kReportBytesMax) {
    is_broken_ = true;
    return false;
  }
  if (pending_.size() < kHeaderBytes + size) return false;
  report = {.kind = static_cast<Kind>(header[0]),
            .node = wire::load_integer<std::uint32_t>(header + 1),
            .text = pending_.substr(kHeaderBytes, size),
            .exit_code = wire::load_integer<std::int32_t>(header + 5)};
  pending_.erase(0, kHeaderBytes + size);
  return true;
}

}  // namespace ddprun::ssh
