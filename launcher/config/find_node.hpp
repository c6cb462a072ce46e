// Finds the entry of this machine in a configuration file. Pure.
#pragma once

#include "launcher/config/config_file.hpp"
#include <ddprun/worker_env.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

struct NodeClues {
  std::optional<GivenValue> node_name;  ///< --node_name or DDPRUN_NODE
  std::optional<GivenValue> node_rank;  ///< --node_rank or PET_NODE_RANK
  std::vector<std::string> host_names;  ///< names of this machine
  std::vector<std::string> addresses;   ///< addresses of interfaces, without loopback
  EnvironmentLookup environment;        ///< environment, which may have a scheduler's index
};

struct FoundNode {
  std::string name;
  std::optional<std::size_t> index;  ///< index in ConfigFile::nodes; nullopt: no nodes
  std::string how;                   ///< reason, such as "its host name is gpu001"

  bool operator==(const FoundNode&) const = default;
};

/// Returns the node of the first clue that matches exactly one node: --node_name, --node_rank
/// (from arguments or variables), the host's name (complete, then up to its first dot), an
/// interface's address, and an index from the scheduler. Names precede the scheduler's index
/// because a file may list more nodes than the scheduler assigned to this job. Returns a problem
/// if no clue matches.
std::variant<FoundNode, UsageProblem> find_node(const ConfigFile& file, const NodeClues& clues);

}  // namespace ddprun
