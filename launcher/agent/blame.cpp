#include "launcher/agent/blame.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>

namespace ddprun {

namespace {

// Parts of messages. Gloo's connection errors begin with the source location.
constexpr std::string_view kPeerFailurePatterns[] = {
    "PeerFailed",       // of this runtime without an error file, and of its backend for PyTorch
    "gloo/transport/",  // "[.../gloo/transport/tcp/pair.cc:598] Connection closed by peer"
    "Gloo connectFullMesh failed",    // a peer ended before all were connected
    "ncclRemoteError",                // "... or a remote process exiting prematurely"
    "NCCL communicator was aborted",  // by the watchdog, after the failure of a peer
    "Watchdog caught collective operation timeout",  // a peer did not enter the collective
};

/// Returns the lines from the last traceback on, or all lines. Earlier output may contain errors
/// that were handled.
std::string from_last_traceback(const std::vector<std::string>& lines) {
  const auto last = std::find(lines.rbegin(), lines.rend(), "Traceback (most recent call last):");
  std::string text;
  for (auto line = last == lines.rend() ? lines.begin() : last.base(); line != lines.end();
       ++line) {
    text += *line + "\n";
  }
  return text;
}

}  // namespace

bool blames_a_peer(std::optional<Errc> code, std::string_view message) {
  if (code) return *code == Errc::remote;
  return std::any_of(
      std::begin(kPeerFailurePatterns), std::end(kPeerFailurePatterns),
      [&](std::string_view pattern) { return message.find(pattern) != std::string_view::npos; });
}

bool is_victim_of_a_peer(const WorkerExited& exit) {
  if (!exit.error_message.empty()) return blames_a_peer(exit.error_code, exit.error_message);
  const bool ended_by_itself = exit.signal == 0 || exit.signal == SIGABRT;
  return ended_by_itself && blames_a_peer({}, from_last_traceback(exit.last_lines));
}

void note_early_exit(std::vector<WorkerExited>& exits) {
  const auto has_failed = [](const WorkerExited& exit) {
    return exit.failed() && !exit.was_stopped;
  };
  const auto first = std::find_if(exits.begin(), exits.end(), has_failed);
  if (std::distance(exits.begin(), first) != 1 || exits.front().was_stopped) return;
  const bool are_victims = std::all_of(first, exits.end(), [&](const WorkerExited& exit) {
    return !has_failed(exit) || is_victim_of_a_peer(exit);
  });
  if (first != exits.end() && are_victims) exits.front().ended_before = kBeforeTheOthers;
}

std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits) {
  std::vector<WorkerExited> failures;
  std::copy_if(exits.begin(), exits.end(), std::back_inserter(failures),
               [](const WorkerExited& exit) { return exit.failed() && !exit.was_stopped; });
  if (failures.empty()) {
    std::copy_if(exits.begin(), exits.end(), std::back_inserter(failures),
                 [](const WorkerExited& exit) { return exit.failed(); });
  }
  std::stable_partition(failures.begin(), failures.end(), [](const WorkerExited& exit) {
    return !exit.was_stopped && !is_victim_of_a_peer(exit);
  });
  return failures;
}

}  // namespace ddprun
