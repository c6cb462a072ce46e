// The section "ssh" of a configuration file: how --ssh reaches the nodes. Pure.
#pragma once

#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct SshSettings {
  std::string user;                  ///< empty: from ssh's own configuration
  int port = 0;                      ///< 0: from ssh's own configuration
  std::vector<std::string> options;  ///< arguments of ssh, before all others
  std::string program;               ///< path of ddprun on the nodes; empty: as on this machine
  std::vector<std::string> forward_variables;  ///< names; a final '*' matches any text

  bool operator==(const SshSettings&) const = default;
};

/// Appends the problems of the value of a key in "ssh".
void check_ssh_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   std::vector<TextProblem>& problems);

/// Reads the section of a file whose keys have been checked. Does not replace references to
/// variables.
SshSettings read_ssh_settings(const JsonValue& root);

}  // namespace ddprun
