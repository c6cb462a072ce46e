// The final reports of the agents of a run's nodes, of which those that are the same count as one.
// Bounded for each node and for all together, whatever they send. Pure.
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

/// Many times a report of a thousand failed workers. The lines beyond it are dropped, and a last
/// one says so.
inline constexpr std::size_t kFinalReportBytesMax = 1U << 20;

/// Memory for the texts of all nodes together. Of a report that comes when it is full, only a hash
/// is kept: enough to know it for the same as one that has come completely. Otherwise it is cut
/// off.
inline constexpr std::size_t kFinalReportsBytesMax = 64 * kFinalReportBytesMax;

class FinalReports {
 public:
  /// A line of the node's report, without its newline. An agent has one report: what follows its
  /// end is ignored.
  void add_line(std::uint32_t node, std::string_view line);

  /// The node's report is complete. One that never is does not count.
  void end(std::uint32_t node);

  /// Those that are complete and differ, each with the first node that gave it.
  std::vector<std::pair<std::uint32_t, std::string>> take();

 private:
  struct Report {
    std::string text{};
    std::size_t bytes = 0;  ///< of the report, which has at most kFinalReportBytesMax and a line
    std::size_t hash = 0;   ///< of the report
    bool is_full = false;   ///< it has reached its own bound
    bool is_cut = false;    ///< the text lacks what came after the memory was full
    bool has_ended = false;
  };
  void append(Report& report, std::string_view line);
  bool is_known(const Report& report) const;

  std::map<std::uint32_t, Report> unfinished_;  ///< those that have ended are empty
  std::vector<std::pair<std::uint32_t, Report>> complete_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  ///< indices in complete_
  std::size_t bytes_ = 0;                                      ///< of all texts
};

}  // namespace ddprun::ssh
