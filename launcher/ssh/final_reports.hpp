// Collects the final reports of the agents of a run. Equal reports count as one. The memory for
// each node and for all nodes is bounded. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun::ssh {

/// Maximum bytes of a report, many times the size for a thousand failed workers. A note replaces
/// further lines.
inline constexpr std::size_t kFinalReportBytesMax = 1U << 20;

/// Limit of the texts of all nodes. Beyond it reports are cut off, and only their hashes are
/// compared with others.
inline constexpr std::size_t kFinalReportsBytesMax = 64 * kFinalReportBytesMax;

class FinalReports {
 public:
  /// Adds a line of the node's report, without its newline. Ignored after the end of the report.
  void add_line(std::uint32_t node, std::string_view line);

  /// Marks the node's report as complete. Incomplete reports are not returned by take().
  void end(std::uint32_t node);

  /// Removes and returns the complete reports that differ, each with the first node that sent it.
  std::vector<std::pair<std::uint32_t, std::string>> take();

 private:
  struct Report {
    std::string text{};
    std::size_t bytes = 0;  ///< size of the whole report, at most kFinalReportBytesMax and a line
    std::size_t hash = 0;   ///< hash of the whole report
    bool is_full = false;   ///< has reached kFinalReportBytesMax
    bool is_cut = false;    ///< `text` lacks lines because of kFinalReportsBytesMax
    bool has_ended = false;
  };
  void append(Report& report, std::string_view line);
  bool is_known(const Report& report) const;

  std::map<std::uint32_t, Report> unfinished_;  ///< empty once complete
  std::vector<std::pair<std::uint32_t, Report>> complete_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  ///< indices in complete_
  std::size_t bytes_ = 0;                                      ///< size of all texts
};

}  // namespace ddprun::ssh
