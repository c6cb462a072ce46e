// Shows the output of all nodes on the console: whole lines with the names of their nodes, in the
// order of each node. Lines that are the same on several agents are shown once. Includes Asio; only
// for .cpp files. Single-threaded.
#pragma once

#include "launcher/output/console_writer.hpp"
#include "launcher/output/line_prefixer.hpp"
#include "launcher/report/agent_line.hpp"
#include "launcher/ssh/final_reports.hpp"
#include "launcher/ssh/repeated_lines.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::ssh {

class NodeConsole {
 public:
  /// `names` of the nodes precede the lines of their workers if `has_prefix`, and always those of
  /// their agents, which begin with `mark`.
  NodeConsole(const boost::asio::any_io_executor& executor, std::vector<std::string> names,
              bool has_prefix, std::string mark);
  ~NodeConsole();

  /// Shows a piece of a node's standard output or standard error.
  void write(std::uint32_t node, bool is_error, std::string_view bytes);

  /// Marks the end of a node's output and shows its incomplete last line.
  void finish(std::uint32_t node);

  /// Returns true if the agent rejected its options.
  bool has_refused(std::uint32_t node) const { return refusing_.contains(node); }

  /// Returns the exit code of the agent once reported; negative: the negated signal that killed it.
  std::optional<int> agent_exit(std::uint32_t node) const;

  /// Prints a line of this ddprun to standard error.
  void print(const std::string& line);

  /// Shows the final reports of the nodes, which are usually equal.
  void show_reports();

  /// Returns true if the console has rejected output; see ConsoleWriter.
  bool has_lost_output() const { return out_->has_lost_output() || error_->has_lost_output(); }

  /// Returns when the console can accept more output.
  boost::asio::awaitable<void> wait_for_room();

  /// Returns when all output has been written, or at the deadline.
  boost::asio::awaitable<void> drain(Deadline deadline);

 private:
  LinePrefixer& prefixer(std::uint32_t node, bool is_error);
  AgentLineReader& reader(std::uint32_t node);
  void show(std::uint32_t node, bool is_error, std::string_view bytes);
  void show_own(std::uint32_t node, const std::string& lines);
  void on_agent_line(std::uint32_t node, const AgentLine& line);
  void report_loss(const std::string& reason);

  const std::vector<std::string> names_;
  const bool has_prefix_;
  std::shared_ptr<ConsoleWriter> out_;
  std::shared_ptr<ConsoleWriter> error_;
  const std::string mark_;
  std::map<std::pair<std::uint32_t, bool>, LinePrefixer> prefixers_;
  std::map<std::uint32_t, AgentLineReader> readers_;  ///< of standard error
  std::set<std::uint32_t> refusing_;
  std::map<std::uint32_t, int> agent_exits_;
  FinalReports reports_;
  RepeatedLines repeated_;
  bool has_reported_loss_ = false;
  LinePrefixer own_{""};
};

}  // namespace ddprun::ssh
