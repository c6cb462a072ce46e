// The message that starts the agent of a node. It contains all that the agent needs, and is sent
// over the standard input of the ddprun that ssh starts, because other users can see arguments and
// environment. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::ssh {

/// Start of the messages of both sides. The number is the protocol version; raise it with each
/// change of a message.
inline constexpr std::string_view kGreetingStart = "DDPRUN-SSH/";
inline constexpr std::string_view kGreeting = "DDPRUN-SSH/3\n";

/// Maximum bytes: the largest configuration file and as many arguments as Linux accepts.
inline constexpr std::size_t kTaskBytesMax = 16U << 20;

struct NodeTask {
  std::string node_name;
  std::vector<std::string> variables;  ///< NAME=value, added to the agent's environment
  std::string folder;                  ///< working directory
  std::string config_name;             ///< file name of the configuration, for messages
  std::string config_text;             ///< content of the configuration
  std::vector<std::string> arguments;  ///< arguments of ddprun, then of the program
  std::string secret;                  ///< shared by all nodes; empty: none
  std::string mark;  ///< prefix of the agent's own lines; see report/agent_line.hpp
  int columns = 0;   ///< width of the terminal that shows the output

  bool operator==(const NodeTask&) const = default;
};

std::string encode(const NodeTask& task);

/// Returns nullopt unless `bytes` are exactly one encoded task.
std::optional<NodeTask> decode_node_task(std::string_view bytes);

/// Returns greeting, length and encoded task, as sent to the node. Each following byte is the
/// number of a signal for the agent; at the end of the stream the agent leaves the run.
std::string framed(const NodeTask& task);

}  // namespace ddprun::ssh
