// A worker for tests with faults, and invariants of its runs.
#pragma once

#include "tests/support/launch.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::test {

/// Files shared by all workers of a run.
class WorkerFolder {
 public:
  /// A script for sh: holds a lock for its rank, reports its node, waits for the file `gate` in
  /// this folder, whose name can use the worker's variables, and then runs `end`.
  std::string script(const std::string& gate = "done", const std::string& end = "") const {
    return "exec 9>" + (folder_ / "rank") + "$RANK; flock -n 9 || echo $RANK >>" +
           (folder_ / "twice") + "; echo $$ >>" + (folder_ / "pid") +
           "$RANK; echo \"rank $RANK of $WORLD_SIZE, restarts $TORCHELASTIC_RESTART_COUNT.\"; "
           "while [ ! -e " +
           (folder_ / gate) + " ]; do sleep 0.02 9>&-; done; " + end;
  }

  void open(const std::string& gate = "done") const { write_file(folder_ / gate, ""); }

  /// Returns whether two workers of the same rank have ever run at the same time.
  bool has_met_twice() const { return !read_file(folder_ / "twice").empty(); }

  /// Returns the latest worker of that rank; empty if none starts in time.
  std::string pid_of(int rank) const {
    const auto file = folder_ / ("pid" + std::to_string(rank));
    return wait_until([&] { return !read_lines(file).empty(); }) ? read_lines(file).back() : "";
  }

  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

inline bool is_gone(const std::string& pid) {
  return read_file("/proc/" + pid + "/cmdline").empty();
}

/// Returns whether nodes have had workers in rounds of a certain size since the last call. Any
/// number of such rounds is accepted: with a lease of a second, load alone can end a round.
class RoundWatch {
 public:
  /// Discards the output of `node` so far. To be called before the cause of the new round.
  void forget(Program& node) {
    node.read_until([](std::string_view) { return false; }, std::chrono::seconds(0));
    seen_[&node] = node.output().size();
  }

  bool is_in_round_of(Program& node, int size) {
    const auto line = " of " + std::to_string(size) + ", restarts";
    return node.read_until([&](std::string_view output) {
      return output.find(line, seen_[&node]) != std::string_view::npos;
    });
  }

 private:
  std::map<const Program*, std::size_t> seen_;
};

}  // namespace ddprun::test
