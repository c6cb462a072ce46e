// Plans `ddprun --config FILE --ssh`: which nodes to start, how and with which task, from the file,
// the arguments and the variables. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/config/ssh_settings.hpp"
#include "launcher/ssh/node_task.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::ssh {

/// Facts of this machine and this process.
struct StarterFacts {
  std::string ssh;                      ///< path of ssh; empty: not in PATH
  std::string program;                  ///< path of this ddprun
  std::string folder;                   ///< working directory
  std::optional<std::size_t> own_node;  ///< index of the node that is this machine
  std::vector<std::string> variables;   ///< names of all variables
  EnvironmentLookup environment;
  std::function<std::string()> make_secret;  ///< returns a random secret
  std::string mark{};                        ///< random prefix of the agents' own lines
  int columns = 0;                           ///< width of the terminal
};

/// Maximum nodes of one start. Each takes five descriptors and a process of the starting machine,
/// whose usual limit of open files is 1,024; larger runs use a scheduler.
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
  std::vector<std::string> names;  ///< names of all nodes in the file, by index
  std::vector<NamedNode> nodes{};  ///< all nodes in the file, by index
  std::vector<Target> targets;     ///< nodes to be started over ssh
  std::optional<Target> own;       ///< this machine's node, which needs no ssh
  NodeTask task;                   ///< task of all nodes, without node_name
  std::size_t nodes_min = 1;
  std::optional<std::size_t> host;  ///< index of the node that hosts the rendezvous
  bool has_node_prefix = true;      ///< of workers' lines; false: set by --prefix

  bool operator==(const SshPlan&) const = default;
};

/// Returns the plan. `text` is the content of `file`. If neither arguments nor file set the
/// security, the nodes get the secret of `facts.make_secret`.
std::variant<SshPlan, UsageProblem> plan_ssh(const ConfigFile& file, const std::string& text,
                                             const ParsedArguments& parsed,
                                             const StarterFacts& facts);

/// Describes the start for --dry_run, without secrets and values of variables.
std::string describe(const SshPlan& plan);

}  // namespace ddprun::ssh
