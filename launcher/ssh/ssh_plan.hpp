// What `ddprun --config FILE --ssh` is to start, where and how: from the file, the arguments and
// the variables. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/config/ssh_settings.hpp"
#include "launcher/ssh/node_task.hpp"

#include <cstddef>
#include <cstdint>
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

/// Limit of the nodes of one start. Each takes four descriptors and a process of the starting
/// machine, whose usual limit of open files is 1,024; larger runs have a scheduler.
inline constexpr std::size_t kNodesMax = 128;

/// A node to be started.
struct Target {
  std::uint32_t node = 0;  ///< index in the file
  std::string name;
  std::string destination;  ///< as given to ssh

  bool operator==(const Target&) const = default;
};

struct SshPlan {
  std::string ssh;
  SshSettings settings;            ///< without references to variables
  std::vector<std::string> names;  ///< of all nodes of the file, by index
  std::vector<NamedNode> nodes{};  ///< the same with what else the file says of them
  std::vector<Target> targets;     ///< nodes to be started over ssh
  std::optional<Target> own;       ///< this machine's node, which needs no ssh
  NodeTask task;                   ///< of all nodes; without node_name
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
