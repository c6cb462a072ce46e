// The section "ssh" of a configuration file: how the nodes are reached that --ssh starts. Pure.
#pragma once

#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct SshSettings {
  std::string user;                            ///< empty: as ssh's own configuration has it
  int port = 0;                                ///< 0: likewise
  std::vector<std::string> options;            ///< arguments of ssh, before all others
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
