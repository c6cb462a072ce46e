// The ssh command that starts ddprun on a node, and the meaning of its failures. Pure.
#pragma once

#include "launcher/config/ssh_settings.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

/// Only argument of the ddprun that runs the agent of a node for 'ddprun --ssh'.
inline constexpr const char* kAgentCommand = "agent-over-ssh";

/// Returns the arguments of ssh, its own path first. They contain no secret, because other users
/// can see them. ssh's own configuration applies, including checks of host keys, except prompts and
/// connections that outlive the run.
std::vector<std::string> ssh_command(const std::string& ssh, const SshSettings& settings,
                                     const std::string& destination);

/// Quotes `word` for the login shell: POSIX shells, csh and fish read it as one word.
std::string quoted_for_shell(const std::string& word);

/// Returns why ddprun did not start on a node, for the operator: from the `exit_code` of ssh
/// (negative: the negated signal) and the last line that ssh or the remote shell wrote to standard
/// error.
std::string describe_no_answer(int exit_code, const std::string& last, const std::string& program);

}  // namespace ddprun::ssh
