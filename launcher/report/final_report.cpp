#include "launcher/report/final_report.hpp"

#include "launcher/report/event_text.hpp"
#include "launcher/report/grouped_stacks.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace ddprun {

namespace {

// Minimum width: below this too many words are broken.
constexpr int kColumnsMin = 40;
constexpr int kColumnsMax = 100;
// A collective error fails all ranks at once; a thousand different messages would hide the report.
constexpr std::size_t kLaterFailuresMax = 8;
constexpr std::size_t kLabelColumns = 12;
// Enough to see whether all ranks wait at the same position, or which one does not.
constexpr std::size_t kStacksMax = 8;
constexpr std::size_t kStackLinesMax = 6;
// Groups with waiting ranks; usually one group stalls, and the others wait for it.
constexpr std::size_t kHeldUpMax = 4;

std::string utc(std::chrono::system_clock::time_point when) {
  const auto seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1024.0 * 1024.0);
  return mebibytes < 1024 ? one_decimal(mebibytes) + " MiB"
                          : one_decimal(mebibytes / 1024) + " GiB";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Collects the lines of the report.
class Page {
 public:
  explicit Page(int columns) : columns_(std::clamp(columns, kColumnsMin, kColumnsMax)) {}

  void rule(char letter) {
    text_ += std::string(static_cast<std::size_t>(columns_), letter) + "\n";
  }

  void paragraph(const std::string& text) { add(text, ""); }

  void indented(std::size_t columns, const std::string& text) {
    add(text, std::string(columns, ' '));
  }

  /// "  label     : text", continued below the text.
  void field(const std::string& label, const std::string& text) {
    if (text.empty()) return;
    auto head = "  " + label;
    head.resize(std::max(head.size(), kLabelColumns), ' ');
    head += ": ";
    add(text, head);
  }

  /// Adds quoted lines with a bar in front. They are not wrapped: the positions in a line may have
  /// a meaning for the next one.
  void quote(const std::string& label, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text_ += "  " + label + ":\n";
    for (const auto& line : lines) text_ += "    | " + printable(line) + "\n";
  }

  const std::string& text() const { return text_; }

 private:
  void add(const std::string& text, const std::string& head) {
    const auto width = columns_ - static_cast<int>(head.size());
    bool is_first = true;
    for (const auto& line : wrap_text(printable(text), width)) {
      text_ += (is_first ? head : std::string(head.size(), ' ')) + line + "\n";
      is_first = false;
    }
  }

  int columns_;
  std::string text_;
};

/// Splits the text into lines, without empty ones at the end.
std::vector<std::string> lines_of(const std::string& text) {
  auto lines = split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::string how_it_ended(const WorkerExited& worker) {
  if (worker.signal != 0) {
    return "killed by signal " + std::to_string(worker.signal) + ", " + end_of(worker);
  }
  return end_of(worker);
}

/// Removes the lines in which run_worker prints the message: "error: " and its text. In the error
/// file the exception's type may precede the message.
std::vector<std::string> without_message(std::vector<std::string> lines,
                                         const std::string& message) {
  constexpr std::string_view kHead = "error: ";
  const auto parts = lines_of(message);
  if (parts.empty()) return lines;
  const auto is_first = [&](const std::string& line) {
    return line.size() > kHead.size() && line.starts_with(kHead) &&
           parts[0].ends_with(line.substr(kHead.size()));
  };
  const auto begin = std::find_if(lines.begin(), lines.end(), is_first);
  if (begin == lines.end()) return lines;
  lines.erase(begin, std::mismatch(begin + 1, lines.end(), parts.begin() + 1, parts.end()).first);
  return lines;
}

std::string time_of(const WorkerExited& worker) {
  const auto time = worker.ended_at ? utc(*worker.ended_at) : "";
  if (!worker.was_started) return time;
  return time + (time.empty() ? "" : ", ") + one_decimal(worker.ran_seconds) + " s after its start";
}

void add_root_cause(Page& page, const WorkerExited& worker, bool is_one_of_several) {
  page.paragraph(is_one_of_several ? "Root cause (one of the ranks that hung):"
                                   : "Root cause (first failure observed):");
  page.field("rank", std::to_string(worker.rank) +
                         (worker.node.empty() ? "" : " on node " + worker.node) +
                         " (local_rank: " + std::to_string(worker.local_rank) +
                         (worker.was_started ? ", pid: " + std::to_string(worker.pid) : "") + ")");
  page.field("ended", how_it_ended(worker));
  page.field("time", time_of(worker));
  if (worker.peak_memory_bytes > 0) {
    page.field("memory", bytes_text(worker.peak_memory_bytes) + " at its peak");
  }
  page.field("core", worker.core_file ? worker.core_file->string() : "");
  page.field("logs", worker.log_folder.string());
  page.field("message", worker.error_message);
  page.field("recorded", worker.error_time ? utc(*worker.error_time) : "");
  page.field("hint", worker.hint);
  // Python prints its traceback on standard error, too, and an exception caught in C++ leaves only
  // its message, so avoid repeating them.
  const auto traceback = lines_of(worker.error_traceback);
  const auto& last = worker.last_lines;
  if (!traceback.empty() && traceback != lines_of(worker.error_message) &&
      std::none_of(last.begin(), last.end(), [&](const std::string& line) {
        return without_rank(line) == traceback.back();
      })) {
    page.quote("traceback", traceback);
  }
  page.quote("last lines of its standard error", without_message(last, worker.error_message));
}

/// Ranks that ended in the same way with the same message.
struct LaterFailures {
  std::string end;
  std::string message;
  std::vector<int> ranks;
  double shortest_seconds;
  double longest_seconds;
  bool was_started;

  bool has(const WorkerExited& worker) const {
    return end == end_of(worker) && message == first_line(worker.error_message);
  }

  std::string label() const {
    return ranks.size() == 1 ? "rank " + std::to_string(ranks[0])
                             : std::to_string(ranks.size()) + " ranks";
  }

  std::string text(const std::string& root_message) const {
    const auto least = one_decimal(shortest_seconds);
    const auto most = one_decimal(longest_seconds);
    auto text = end;
    if (was_started) text += " after " + (least == most ? "" : least + " to ") + most + " s";
    if (ranks.size() > 1) text += " (" + ranks_phrase(ranks) + ")";
    if (message.empty()) return text;
    return text + ": " + (message == root_message ? "the message above" : message);
  }
};

/// Groups the failures after the first: those that hung like it, or the others.
std::vector<LaterFailures> group(const std::vector<WorkerExited>& failures, bool have_hung) {
  const bool has_first_hung = !failures.front().hung.empty();
  std::vector<LaterFailures> groups;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    const auto& worker = failures[i];
    if ((has_first_hung && !worker.hung.empty()) != have_hung) continue;
    const auto seconds = worker.ran_seconds;
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const LaterFailures& one) { return one.has(worker); });
    if (same == groups.end()) {
      groups.push_back({.end = end_of(worker),
                        .message = first_line(worker.error_message),
                        .ranks = {},
                        .shortest_seconds = seconds,
                        .longest_seconds = seconds,
                        .was_started = worker.was_started});
      same = groups.end() - 1;
    }
    same->ranks.push_back(worker.rank);
    same->shortest_seconds = std::min(same->shortest_seconds, seconds);
    same->longest_seconds = std::max(same->longest_seconds, seconds);
  }
  return groups;
}

void add_groups(Page& page, const char* title, const std::vector<LaterFailures>& groups,
                const std::vector<WorkerExited>& failures) {
  if (groups.empty()) return;
  page.rule('-');
  page.paragraph(title);
  const auto shown = std::min(groups.size(), kLaterFailuresMax);
  const auto root_message = first_line(failures.front().error_message);
  for (std::size_t i = 0; i < shown; ++i)
    page.field(groups[i].label(), groups[i].text(root_message));
  std::vector<int> others;
  for (std::size_t i = shown; i < groups.size(); ++i)
    others.insert(others.end(), groups[i].ranks.begin(), groups[i].ranks.end());
  if (!others.empty()) page.paragraph("  and " + ranks_phrase(others));
}

void add_stalled(Page& page, const std::vector<StalledCollective>& all) {
  if (all.empty()) return;
  page.rule('-');
  page.paragraph("Where the ranks were in their collectives:");
  const auto shown = std::min(all.size(), kHeldUpMax);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto lines = describe(all[i]);
    page.indented(2, lines.front());
    for (std::size_t j = 1; j < lines.size(); ++j) page.indented(4, lines[j]);
  }
  if (shown < all.size())
    page.paragraph("  and " + std::to_string(all.size() - shown) + " more groups");
}

void add_stacks(Page& page, const std::vector<StacksTaken>& stacks) {
  if (stacks.empty()) return;
  page.rule('-');
  page.paragraph("What the workers were doing (" + stacks.front().reason + "):");
  const auto shown = std::min(stacks.size(), kStacksMax);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& taken = stacks[i];
    const auto rank = short_ranks(taken);
    if (!taken.file.empty()) {
      page.field(rank, taken.file.string());
      continue;
    }
    if (taken.means.empty()) {
      page.field(rank, "nothing was found");
      continue;
    }
    const auto lines = std::min(taken.lines.size(), kStackLinesMax);
    page.quote(rank + ", by " + join(taken.means, " and "),
               {taken.lines.begin(), taken.lines.begin() + static_cast<std::ptrdiff_t>(lines)});
  }
  if (shown < stacks.size()) {
    page.paragraph("  and " + std::to_string(stacks.size() - shown) + " more stacks");
  }
}

}  // namespace

std::string final_report(const RunFinished& finished, const ReportFacts& facts, int columns) {
  Page page(columns);
  page.rule('=');
  page.paragraph(facts.program + " FAILED after " + std::to_string(finished.attempts) +
                 (finished.attempts == 1 ? " attempt" : " attempts"));
  if (!finished.reason.empty()) page.paragraph(finished.reason);
  if (!finished.failures.empty()) {
    page.rule('-');
    const auto& failures = finished.failures;
    const auto hung = group(failures, true);
    add_root_cause(page, failures.front(), !hung.empty());
    add_groups(page, "Hung, too:", hung, failures);
    add_groups(page, "Failed later, probably because of it:", group(failures, false), failures);
  }
  add_stalled(page, finished.stalled);
  if (!facts.stopped.empty()) {
    page.rule('-');
    page.paragraph("Stopped by ddprun after the failure: " + ranks_phrase(facts.stopped));
  }
  add_stacks(page, facts.stacks);
  page.rule('=');
  return page.text();
}

}  // namespace ddprun
