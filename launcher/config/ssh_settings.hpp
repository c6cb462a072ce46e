// The section "ssh" of a configuration file: how the nodes are reached that --ssh starts. Pure.
#pragma once

#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// How many machines one machine starts by itself. More than most runs have nodes, as a machine
/// that starts others takes them with it when it is lost; few enough for sshd and for one CPU.
inline constexpr int kSshFanOut = 64;

/// Each takes five descriptors while it starts, and the usual limit of open files is 1,024.
inline constexpr int kSshFanOutMax = 128;

struct SshSettings {
  std::string user;                            ///< empty: as ssh's own configuration has it
  int port = 0;                                ///< 0: likewise
  std::vector<std::string> options;            ///< arguments of ssh, before all others
  int fan_out = kSshFanOut;                    ///< machines that one machine starts
  std::string program;                         ///< path of ddprun there; empty: as here
  std::vector<std::string> forward_variables;  ///< names; a '*' at the end stands for anything

  bool operator==(const SshSettings&) const = default;
};

/// What is wrong with the value of this key of "ssh".
void check_ssh_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   std::vector<TextProblem>& problems);

/// The section of a file whose keys have been checked; references to variables as they stand.
SshSettings read_ssh_settings(const JsonValue& root);

}  // namespace ddprun
