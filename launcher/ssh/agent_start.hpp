// The agent's side of a start over ssh: converts the task on standard input into the command line
// with which a user would have started the agent.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

struct AgentStart {
  std::vector<std::string> arguments;
  std::string config_text;  ///< content of the file that the arguments name; it may not exist here
  UniqueFd secret;          ///< file that the arguments name; keep it open; -1: no secret
  std::string mark;         ///< prefix of the agent's own lines
  int columns = 0;          ///< width of the terminal that shows the output
};

/// Makes this process' memory private, reads a task from standard input, enters its folder, sets
/// its variables, and acknowledges it by a greeting on standard output. Then redirects standard
/// input from /dev/null. Blocks for up to 60 s. Throws Error{Errc::usage} if there is no task,
/// Errc::protocol if it is malformed or of another version, Errc::timeout, and Errc::system if the
/// folder cannot be entered. For a process with one thread.
AgentStart read_agent_start();

}  // namespace ddprun::ssh
