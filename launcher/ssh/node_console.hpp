// The output of all nodes on the console: whole lines, each with its node's name, in the order in
// which the node has written them. Includes Asio, so it is for .cpp files. One thread.
#pragma once

#include "launcher/output/console_writer.hpp"
#include "launcher/output/line_prefixer.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::ssh {

class NodeConsole {
 public:
  /// `names` of the nodes; empty ones get no prefix.
  NodeConsole(const boost::asio::any_io_executor& executor, std::vector<std::string> names);
  ~NodeConsole();

  /// A piece of a node's standard output or standard error.
  void take(std::uint32_t node, bool is_error, std::string_view bytes);

  /// Nothing more comes from this node: what there is of a last line is shown.
  void finish(std::uint32_t node);

  /// A line of ddprun's own, on standard error.
  void say(const std::string& line);

  /// Returns when more may be taken.
  boost::asio::awaitable<void> room();

  /// Returns when the console has taken all, or at the deadline.
  boost::asio::awaitable<void> drain(Deadline deadline);

 private:
  LinePrefixer& prefixer(std::uint32_t node, bool is_error);

  const std::vector<std::string> names_;
  std::shared_ptr<ConsoleWriter> out_;
  std::shared_ptr<ConsoleWriter> error_;
  std::map<std::pair<std::uint32_t, bool>, LinePrefixer> prefixers_;
  LinePrefixer own_{""};
};

}  // namespace ddprun::ssh
