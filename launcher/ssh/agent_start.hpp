// The agent's side of a start over ssh: from the task on its standard input to the command line
// that it would have been started with by hand.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

struct AgentStart {
  std::vector<std::string> arguments;
  std::string config_text;  ///< of the file that the arguments name, which may not be there
  UniqueFd secret;          ///< a file that the arguments name; as long as the agent lives
  std::string mark;         ///< before the lines that it says itself
  int columns = 0;          ///< of the terminal where they are read
};

/// Reads standard input, which is empty afterwards. Throws Error{Errc::usage} if that is no task.
AgentStart read_agent_start();

}  // namespace ddprun::ssh
