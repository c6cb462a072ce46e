// What a machine is told over the standard input of the ddprun that ssh starts on it: all that it
// and the machines below it need. Standard input because other users see neither it nor the
// environment. Values and their bytes; pure.
#pragma once

#include "launcher/config/ssh_settings.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::ssh {

/// Begins what both sides say. The number is the version of what follows; a new field makes a new
/// one.
inline constexpr std::string_view kGreetingStart = "DDPRUN-SSH/";
inline constexpr std::string_view kGreeting = "DDPRUN-SSH/2\n";

/// A configuration file of the largest size, arguments as many as Linux takes, and room to spare.
inline constexpr std::size_t kTaskBytesMax = 16U << 20;

/// What an agent needs beside its environment and its folder.
struct AgentTask {
  std::string config_name;  ///< of the file, for messages
  std::string config_text;
  std::vector<std::string> arguments;  ///< of ddprun, the program's behind them
  std::string secret;                  ///< what the nodes know of each other; empty: nothing
  std::string mark{};  ///< before the lines that it says itself; see report/own_words.hpp
  int columns = 0;     ///< of the terminal where they are read

  bool operator==(const AgentTask&) const = default;
};

struct Target {
  std::uint32_t node = 0;  ///< index in the file
  std::string name;
  std::string destination;  ///< what ssh is told

  bool operator==(const Target&) const = default;
};

struct RelayTask {
  std::vector<Target> targets;         ///< the receiver, then those that it has to start
  SshSettings ssh;                     ///< complete: nothing is left to be looked up
  std::vector<std::string> variables;  ///< NAME=value, for the agents
  std::string folder;                  ///< to work in
  AgentTask agent;

  bool operator==(const RelayTask&) const = default;
};

std::string encode(const AgentTask& task);
std::string encode(const RelayTask& task);

/// Nothing if the bytes are no such task as a whole.
std::optional<AgentTask> decode_agent_task(std::string_view bytes);
std::optional<RelayTask> decode_relay_task(std::string_view bytes);

/// Greeting, length, bytes.
std::string framed(const std::string& task);

}  // namespace ddprun::ssh
