// The final reports of the agents of a run's nodes, of which those that are the same count as one.
// Bounded, whatever a node sends. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::ssh {

/// Many times a report of a thousand failed workers. The lines beyond it are dropped, and a last
/// one says so.
inline constexpr std::size_t kFinalReportBytesMax = 1U << 20;

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
    bool is_cut = false;
    bool has_ended = false;
  };
  std::map<std::uint32_t, Report> unfinished_;  ///< those that have ended are empty
  std::vector<std::pair<std::uint32_t, std::string>> complete_;
};

}  // namespace ddprun::ssh
