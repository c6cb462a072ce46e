// The output of all nodes on the console: whole lines, each with its node's name, in the order in
// which the node has written them. What their agents say alike is shown once. Includes Asio, so it
// is for .cpp files. One thread.
#pragma once

#include "launcher/output/console_writer.hpp"
#include "launcher/output/line_prefixer.hpp"
#include "launcher/report/own_words.hpp"
#include "launcher/ssh/common_words.hpp"
#include "launcher/ssh/final_reports.hpp"
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
  /// `names` of the nodes, which go before the lines of their workers if `has_prefix`. Their
  /// agents' own lines begin with `mark` and always get the name.
  NodeConsole(const boost::asio::any_io_executor& executor, std::vector<std::string> names,
              bool has_prefix, std::string mark);
  ~NodeConsole();

  /// A piece of a node's standard output or standard error.
  void take(std::uint32_t node, bool is_error, std::string_view bytes);

  /// Nothing more comes from this node: what there is of a last line is shown.
  void finish(std::uint32_t node);

  /// Whether its agent has said that it starts nothing.
  bool has_refused(std::uint32_t node) const { return refusing_.contains(node); }

  /// The exit code of its agent, if that has been reported; negative: minus a signal.
  std::optional<int> agent_exit(std::uint32_t node) const;

  /// A line of ddprun's own, on standard error.
  void say(const std::string& line);

  /// The final reports of the nodes, which are one as a rule.
  void show_reports();

  /// As of an OutputRouter.
  bool has_lost_output() const { return out_->has_lost_output() || error_->has_lost_output(); }

  /// Returns when more may be taken.
  boost::asio::awaitable<void> room();

  /// Returns when the console has taken all, or at the deadline.
  boost::asio::awaitable<void> drain(Deadline deadline);

 private:
  LinePrefixer& prefixer(std::uint32_t node, bool is_error);
  OwnWordsReader& reader(std::uint32_t node);
  void show(std::uint32_t node, bool is_error, std::string_view bytes);
  void show_own(std::uint32_t node, const std::string& lines);
  void hear(std::uint32_t node, const OwnWords& words);
  void take_loss(const std::string& reason);

  const std::vector<std::string> names_;
  const bool has_prefix_;
  std::shared_ptr<ConsoleWriter> out_;
  std::shared_ptr<ConsoleWriter> error_;
  const std::string mark_;
  std::map<std::pair<std::uint32_t, bool>, LinePrefixer> prefixers_;
  std::map<std::uint32_t, OwnWordsReader> readers_;  ///< of standard error
  std::set<std::uint32_t> refusing_;
  std::map<std::uint32_t, int> agent_exits_;
  FinalReports reports_;
  CommonWords common_;
  bool has_told_of_loss_ = false;
  LinePrefixer own_{""};
};

}  // namespace ddprun::ssh
