// The section "ssh" of a configuration file, with the settings of --ssh. Pure.
#pragma once

#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct SshSettings {
  std::string user;                  ///< user name; empty: use ssh's configuration
  int port = 0;                      ///< port; 0: use ssh's configuration
  std::vector<std::string> options;  ///< arguments of ssh, before all others
  std::string program;               ///< path of ddprun on the nodes; empty: this machine's path
  std::vector<std::string> forward_variables;  ///< names; final '*': any text

  bool operator==(const SshSettings&) const = default;
};

/// Appends problems with the value of a key in "ssh".
void check_ssh_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   std::vector<TextProblem>& problems);

/// Reads the section from a file whose keys have been checked. Does not replace references to
/// variables.
SshSettings read_ssh_settings(const JsonValue& root);

}  // namespace ddprun
