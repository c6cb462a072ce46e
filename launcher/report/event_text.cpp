#include "launcher/report/event_text.hpp"

#include "launcher/report/grouped_stacks.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>

namespace ddprun {

namespace {

// Limits the line when many ranks hang.
constexpr std::size_t kHungShownMax = 4;

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
  return text;
}

std::string counted(int count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string rank_and_pid(int rank, pid_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ")";
}

std::string on_node(const std::string& name) {
  return name.empty() ? "" : " on node " + name;
}

EventLine line(const PreflightStarted& event) {
  return {LogLevel::info, -1, "preflight of " + counted(event.workers, "worker")};
}

EventLine line(const DeviceExamined& event) {
  const auto& report = event.report;
  const auto of_whom = "preflight: local rank " + std::to_string(event.local_rank) + ", " +
                       (report.device.empty() ? "its device" : report.device) + ": ";
  if (!report.problem.empty()) return {LogLevel::error, -1, of_whom + report.problem};
  if (!report.remark.empty()) return {LogLevel::warn, -1, of_whom + report.remark};
  return {LogLevel::debug, -1, of_whom + "passed"};
}

EventLine line(const PreflightEnded& event) {
  const auto after = " after " + seconds_text(event.seconds);
  if (event.summary.empty()) return {LogLevel::debug, -1, "the preflight has ended" + after};
  return {LogLevel::info, -1, "preflight: " + event.summary + after};
}

/// Returns an empty text for the name that torchrun gives unnamed runs.
std::string of_run(const std::string& id) {
  return id == "none" ? "" : " of run " + id;
}

EventLine line(const RunStarted& event) {
  const auto workers = counted(event.local_world_size, "worker") + " of " + event.program;
  auto text = event.has_to_meet ? "meeting the other nodes" + of_run(event.run_id) + " at " +
                                      event.store + ", to start " + workers
                                : "starting " + workers + ", store at " + event.store;
  if (!event.log_folder.empty()) text += ", logs in " + event.log_folder.string();
  return {LogLevel::info, -1, text};
}

EventLine line(const RoundJoined& event) {
  const int last = event.first_rank + event.local_world_size - 1;
  std::vector<int> ranks;
  for (int rank = event.first_rank; rank <= last; ++rank) ranks.push_back(rank);
  return {LogLevel::info, event.round,
          "node " + std::to_string(event.node_rank) + " of " + std::to_string(event.node_count) +
              ", " + ranks_phrase(ranks) + " of " + std::to_string(event.world_size) +
              ", store at " + event.store};
}

EventLine line(const AttemptStarted& event) {
  return {LogLevel::debug, event.attempt,
          "starting the workers" + (event.restarts_left
                                        ? "; " + counted(*event.restarts_left, "restart") + " left"
                                        : std::string())};
}

EventLine line(const WorkerStarted& event) {
  return {LogLevel::debug, event.attempt, rank_and_pid(event.rank, event.pid) + " started"};
}

EventLine line(const WorkerNotStarted& event) {
  return {LogLevel::error, event.attempt,
          "rank " + std::to_string(event.rank) + " could not be started: " + event.message};
}

EventLine line(const WorkerDying& event) {
  return {LogLevel::debug, event.attempt,
          "rank " + std::to_string(event.rank) + " is dying after " +
              seconds_text(event.after_start_seconds)};
}

EventLine line(const WorkerExited& event) {
  const auto worker = rank_and_pid(event.rank, event.pid);
  const auto after = " after " + seconds_text(event.ran_seconds);
  if (!event.failed()) return {LogLevel::debug, event.attempt, worker + " succeeded" + after};
  if (event.still_running) {
    return {LogLevel::error, event.attempt, describe_failure(event)};
  }
  if (event.was_stopped) {
    return {LogLevel::debug, event.attempt, worker + " stopped with " + end_of(event) + after};
  }
  if (!event.hung.empty())
    return {LogLevel::warn, event.attempt, worker + " hung" + after + ": " + event.hung};
  return {LogLevel::warn, event.attempt, describe_failure(event) + after};
}

EventLine line(const WorkersStopping& event) {
  return {LogLevel::info, event.attempt,
          "stopping " + ranks_phrase(event.ranks) + ": " + event.reason};
}

EventLine line(const WorkersKilled& event) {
  return {LogLevel::warn, event.attempt,
          "killed " + ranks_phrase(event.ranks) + ": " + event.reason};
}

EventLine line(const StacksTaken& event) {
  const auto whose =
      "stacks of " + (event.same.empty() ? rank_and_pid(event.rank, event.pid) + on_node(event.node)
                                         : ranks_phrase(ranks_of(event)));
  std::string text;
  if (event.means.empty()) {
    text = "no " + whose;
    if (event.was_ended) text += event.same.empty() ? ", which was ended" : ", which were ended";
    if (event.was_ended) text += " for them";
    text += ", " + event.reason;
  } else {
    text = whose + ", " + event.reason + "; taken by " + join(event.means, " and ");
    if (event.was_ended) text += event.same.empty() ? ", which ended it" : ", which ended them";
  }
  for (const auto& problem : event.problems) text += "; " + problem;
  if (!event.file.empty()) text += ": " + event.file.string();
  return {LogLevel::warn, event.attempt, text};
}

EventLine line(const CollectiveStalled& event) {
  return {LogLevel::warn, event.attempt, headline(event.stalled)};
}

std::string connections_text(const std::vector<StalledConnection>& connections) {
  std::string text;
  const auto shown = std::min(connections.size(), kHungShownMax);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [rank, peer, silence, retransmissions] = connections[i];
    const double seconds = std::chrono::duration<double>(silence).count();
    text += "; rank " + std::to_string(rank) + " has had no acknowledgement from " + peer +
            (seconds > 0 ? " for " + seconds_text(seconds) : "") + " (" +
            counted(retransmissions, "retransmission") + ")";
  }
  if (shown < connections.size())
    text += "; and " + counted(static_cast<int>(connections.size() - shown), "more connection");
  return text;
}

/// Returns an empty text if there are no ranks.
std::string hung_ranks_text(const std::vector<MissingRank>& ranks) {
  if (ranks.empty()) return {};
  const auto& first = ranks.front().doing;
  if (ranks.size() == 1) return first;
  if (std::all_of(ranks.begin(), ranks.end(), [&](const auto& one) { return one.doing == first; }))
    return "each " + first;
  std::vector<std::string> doing;
  for (const auto& rank : ranks) {
    if (doing.size() == kHungShownMax) {
      doing.push_back("and " + std::to_string(ranks.size() - doing.size()) + " more");
      break;
    }
    doing.push_back("rank " + std::to_string(rank.rank) + " " + rank.doing);
  }
  return join(doing, ", ");
}

EventLine line(const HangDetected& event) {
  std::vector<int> ranks;
  for (const auto& rank : event.ranks) ranks.push_back(rank.rank);
  const auto doing = hung_ranks_text(event.ranks);
  const char* verb = !event.is_certain ? " may hang" : ranks.size() == 1 ? " hangs" : " hang";
  std::string text = (ranks.empty() ? "the workers" : ranks_phrase(ranks)) + on_node(event.node) +
                     verb + " (no progress for " + seconds_text(event.seconds) + "): ";
  const std::string none = event.node.empty() ? "no late rank found on this node" : "no late rank";
  text += doing.empty() ? none : doing;
  text += connections_text(event.connections);
  if (event.lacks_restarts)
    text += "; no restarts are left (--max_restarts), so the workers keep running";
  if (event.action == OnHang::restart) text += "; restarting the workers";
  if (event.action == OnHang::stop) text += "; ending the run";
  return {LogLevel::warn, event.attempt, text};
}

EventLine line(const HangEnded& event) {
  return {
      LogLevel::info, event.attempt,
      "the workers" + on_node(event.node) + " have continued after " + seconds_text(event.seconds)};
}

std::string link_name(const std::string& node, const std::string& peer) {
  return "the link " + (node.empty() ? "" : "from node " + node + " ") + "to node " + peer;
}

EventLine line(const SlowRankDetected& event) {
  char number[32];
  std::snprintf(number, sizeof number, event.peer.empty() ? "%.2f" : "%.1f", event.factor);
  const std::string factor = event.factor < 100 ? number : "more than 100";
  const std::string rank = "rank " + std::to_string(event.rank);
  const std::string seconds = ", for " + seconds_text(event.seconds);
  if (!event.peer.empty())
    return {LogLevel::warn, event.attempt,
            link_name(event.node, event.peer) + " is slow: data takes " + factor +
                " times as long as before" + seconds + "; " + rank + " " + event.doing};
  return {LogLevel::warn, event.attempt,
          rank + on_node(event.node) + " is slow: takes " + factor +
              " times as long between collectives as the median rank" + seconds +
              (event.doing.empty() ? "" : "; " + event.doing)};
}

EventLine line(const SlowRankRecovered& event) {
  if (!event.peer.empty())
    return {LogLevel::info, event.attempt,
            link_name(event.node, event.peer) + " is as fast as usual again"};
  return {LogLevel::info, event.attempt,
          "rank " + std::to_string(event.rank) + on_node(event.node) +
              " is as fast as the others again"};
}

EventLine line(const RestartDecided& event) {
  std::string text = "restarting";
  if (event.delay.count() > 0) {
    text += " in " + seconds_text(std::chrono::duration<double>(event.delay).count());
  }
  return {event.is_planned ? LogLevel::info : LogLevel::warn, event.next_attempt,
          text + ": " + event.reason};
}

EventLine line(const SignalReceived& event) {
  return {LogLevel::warn, -1, "received " + signal_name(event.signal) + ": " + event.action};
}

EventLine line(const Note& event) {
  return {LogLevel::info, -1, event.message};
}

EventLine line(const Warning& event) {
  return {LogLevel::warn, -1, event.message};
}

EventLine line(const RunFinished& event) {
  const auto attempts = counted(event.attempts, "attempt");
  const bool is_of_node = event.scope == OutcomeScope::node;
  if (event.result == RunResult::succeeded && is_of_node) {
    return {LogLevel::warn, -1, "left the run after " + attempts + ": " + event.reason};
  }
  if (event.result == RunResult::succeeded && event.is_of_many) {
    return {LogLevel::info, -1, "the run has ended after " + attempts + ": " + event.reason};
  }
  if (event.result == RunResult::succeeded) {
    return {LogLevel::debug, -1, "all workers succeeded in " + attempts};
  }
  if (event.result == RunResult::unfit) {
    return {LogLevel::error, -1,
            "no worker was started, exit code " + std::to_string(event.exit_code) + ": " +
                event.reason};
  }
  if (is_of_node && event.result == RunResult::no_rendezvous) {
    return {LogLevel::error, -1, event.reason};
  }
  if (is_of_node) {
    return {LogLevel::warn, -1,
            "left the run after " + attempts + " with exit code " +
                std::to_string(event.exit_code) + ": " + event.reason};
  }
  return {LogLevel::error, -1,
          "the run ended after " + attempts + " with exit code " + std::to_string(event.exit_code) +
              ": " + event.reason};
}

}  // namespace

EventLine line_for(const Event& event) {
  return std::visit([](const auto& value) { return line(value); }, event);
}

std::string describe_failure(const WorkerExited& worker) {
  if (!worker.was_started) return "rank " + std::to_string(worker.rank) + " could not be started";
  const char* how = worker.signal != 0 ? " was killed by " : " failed with ";
  if (!worker.hung.empty()) return rank_and_pid(worker.rank, worker.pid) + " hung: " + worker.hung;
  if (!worker.ended_before.empty()) how = " has ended with ";
  if (worker.still_running) how = " is ";
  return rank_and_pid(worker.rank, worker.pid) + how + end_of(worker);
}

std::string describe_stop(std::chrono::milliseconds grace, std::chrono::seconds pause) {
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g s", std::chrono::duration<double>(grace).count());
  return "stopping the workers, at most " + std::string(limit) + "; send it again " +
         (pause.count() == 0 ? "" : "after " + std::to_string(pause.count()) + " s ") +
         "to kill them at once";
}

std::string end_of(const WorkerExited& worker) {
  if (!worker.was_started) return "not started";
  if (worker.still_running) return "still running " + *worker.still_running;
  if (!worker.ended_before.empty()) return "exit code 0 " + worker.ended_before;
  if (worker.signal == 0) return "exit code " + std::to_string(worker.exit_code);
  if (!worker.hung.empty()) return signal_name(worker.signal) + " after a hang: " + worker.hung;
  const char* origin = worker.was_forwarded ? " (forwarded by ddprun)" : "";
  return signal_name(worker.signal) + (worker.is_out_of_memory ? " (out of memory)" : origin);
}

std::string format_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    // Two neighbours are shown as a list, not as a range.
    if (last == i + 1) last = i;
    parts.push_back(std::to_string(ranks[i]) + (last > i ? "-" + std::to_string(ranks[last]) : ""));
    i = last + 1;
  }
  return join(parts, ", ");
}

std::string ranks_phrase(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

std::string_view without_rank(std::string_view line) {
  constexpr std::string_view kHead = "[rank";
  const auto end = line.find("]: ");
  if (!line.starts_with(kHead) || end == std::string_view::npos) return line;
  const auto rank = line.substr(kHead.size(), end - kHead.size());
  const bool is_number = rank.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? line.substr(end + 3) : line;
}

}  // namespace ddprun
