// The command by which ssh starts a node's ddprun, and what it means when that does not come about.
// Pure.
#pragma once

#include "launcher/config/ssh_settings.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

/// Only argument of the ddprun that runs the agent of a node for 'ddprun --ssh'.
inline constexpr const char* kAgentCommand = "agent-over-ssh";

/// The arguments of ssh, its own path first. Nothing in them is secret: other users can see them.
/// ssh's own configuration counts, with its checks of host keys; only what would make it wait for
/// a person or outlive the run is switched off.
std::vector<std::string> ssh_command(const std::string& ssh, const SshSettings& settings,
                                     const std::string& destination);

/// `word` as one word for any shell that people log in with.
std::string quoted_for_shell(const std::string& word);

/// Why no ddprun answered, for the operator. `exit_code` of ssh (negative: the signal), and the
/// last line that it or the shell there wrote on standard error.
std::string describe_no_answer(int exit_code, const std::string& last, const std::string& program);

}  // namespace ddprun::ssh
