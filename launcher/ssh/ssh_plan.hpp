// What `ddprun --config FILE --ssh` is to start, where and how: from the file, the arguments and
// the variables. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/ssh/task.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::ssh {

/// What a plan needs to know of this machine and this process.
struct StarterFacts {
  std::string ssh;                      ///< path of ssh; empty: there is none
  std::string program;                  ///< path of this ddprun
  std::string folder;                   ///< this process'
  std::optional<std::size_t> own_node;  ///< which of the file's nodes this machine is
  std::vector<std::string> variables;   ///< names of all that are set
  EnvironmentLookup environment;
  std::string new_secret;  ///< a random one
  std::string mark{};      ///< a random one, for what the agents say
  int columns = 0;         ///< of the terminal
};

struct SshPlan {
  std::string ssh;
  std::vector<std::string> names;  ///< of all nodes of the file, by index
  std::vector<NamedNode> nodes{};  ///< the same with what else the file says of them
  RelayTask task;                  ///< its targets are all nodes to be started, own one left out
  std::optional<Target> own;       ///< this machine's node, which needs no ssh
  std::size_t nodes_min = 1;
  std::optional<std::size_t> host;  ///< index of the node that hosts the rendezvous
  bool has_node_prefix = true;      ///< of the workers' lines; false: --prefix says what they get

  bool operator==(const SshPlan&) const = default;
};

/// Unless arguments or file speak of security, the nodes get the new secret. `text` is the content
/// of `file`; the words' --ssh and --config have brought us here.
std::variant<SshPlan, UsageProblem> plan_ssh(const ConfigFile& file, const std::string& text,
                                             const ArgumentWords& words, const StarterFacts& facts);

/// What would be started, for --dry_run.
std::string describe(const SshPlan& plan);

}  // namespace ddprun::ssh
