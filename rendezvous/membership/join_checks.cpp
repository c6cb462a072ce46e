#include "rendezvous/membership/join_checks.hpp"

#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/command.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::membership {

namespace {

std::string differs(const std::string& what, const std::string& theirs, const std::string& ours) {
  return what + " is " + theirs + " on the node that joins and " + ours +
         " on the one that hosts the rendezvous";
}

std::string too_long(const std::string& what, const std::string& text) {
  return what + " has " + std::to_string(text.size()) + " bytes (at most " +
         std::to_string(kNameBytesMax) + ")";
}

/// Upper bound of the length as JSON, for any choice of escapes.
std::size_t bytes_as_json(const std::string& text) {
  constexpr unsigned char kFirstPrintable = 0x20;
  constexpr unsigned char kDelete = 0x7F;
  std::size_t bytes = 0;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    const bool is_control = byte < kFirstPrintable || byte == kDelete;
    const bool is_escaped = each == '"' || each == '\\';
    bytes += is_control ? 6 : byte > kDelete ? 3 : is_escaped ? 2 : 1;
  }
  return bytes;
}

std::string other_config(const Join& join, const Settings& settings) {
  if (join.config_hash.empty()) {
    return "the node that joins has no configuration file (--config), the one that hosts the "
           "rendezvous has";
  }
  if (settings.config_hash.empty()) {
    return "the node that joins has a configuration file (--config), the one that hosts the "
           "rendezvous has none";
  }
  return "the configuration file (--config) is another one than on the node that hosts the "
         "rendezvous";
}

std::string range(int least, int most) {
  const auto text = std::to_string(most);
  return least == most ? text : std::to_string(least) + ":" + text;
}

Problem out_of_range(const std::string& what, int value, int least, int most) {
  if (value >= least && value <= most) return std::nullopt;
  return what + " is " + std::to_string(value) + " on the node that joins (from " +
         std::to_string(least) + " to " + std::to_string(most) + ")";
}

Problem number_out_of_range(const Join& join, int nodes_max) {
  for (auto text : {out_of_range("--nproc_per_node", join.local_world_size, 1, kLocalWorkersMax),
                    out_of_range("--node_rank", join.node_rank, -1, nodes_max - 1),
                    out_of_range("the latest round", join.last_round, -1, kRoundMax),
                    out_of_range("the number of restarts", join.restarts_used, 0, kRoundMax)}) {
    if (text) return text;
  }
  return std::nullopt;
}

/// Agents on one machine may use its address as a name. If only one of the two connects from that
/// address, they are on different machines.
Problem compare_address(const Join& join, const Roster& roster) {
  const auto& own = join.probe.host;
  for (const auto& [id, member] : roster.all()) {
    const auto& other = member.join.probe.host;
    const bool has_one_owner = (own == join.name) != (other == join.name);
    const bool have_one_family = !own.empty() && !other.empty() &&
                                 (own.find(':') == own.npos) == (other.find(':') == other.npos);
    if (member.join.name != join.name || !has_one_owner || !have_one_family) continue;
    return "the nodes that connect from " + other + " and " + own + " are both named " + join.name +
           "; give each its own address (--local_addr)";
  }
  return std::nullopt;
}

}  // namespace

Problem objection_to_version(std::uint32_t version) {
  if (version == kProtocolVersion) return std::nullopt;
  return differs("the version of the agents' messages", std::to_string(version),
                 std::to_string(kProtocolVersion));
}

Problem objection_to_name(const std::string& name, const Settings& settings) {
  if (name.size() > kNameBytesMax) return too_long("the node's name", name);
  const auto most = settings.recorded_name_bytes_max;
  const auto bytes = bytes_as_json(name);
  if (most == 0 || bytes <= most) return std::nullopt;
  return "the node's name takes " + std::to_string(bytes) +
         " bytes of what is recorded of the run in etcd (at most " + std::to_string(most) +
         ", so that " + counted_nodes(settings.nodes_max) + " fit; set another with --local_addr)";
}

Problem objection_to(const Join& join, const Settings& settings) {
  if (auto text = objection_to_version(join.version)) return text;
  if (auto text = objection_to_name(join.name, settings)) return text;
  if (join.role.size() > kNameBytesMax) return too_long("--role", join.role);
  if (join.run_id != settings.run_id) {
    return differs("the run (--rdzv_id)", "'" + join.run_id + "'", "'" + settings.run_id + "'");
  }
  if (join.config_hash != settings.config_hash) return other_config(join, settings);
  if (join.nodes_min != settings.nodes_min || join.nodes_max != settings.nodes_max) {
    return differs("--nnodes", range(join.nodes_min, join.nodes_max),
                   range(settings.nodes_min, settings.nodes_max));
  }
  if (join.max_restarts != settings.restarts.max_restarts) {
    return differs("--max_restarts", std::to_string(join.max_restarts),
                   std::to_string(settings.restarts.max_restarts));
  }
  return number_out_of_range(join, settings.nodes_max);
}

std::string config_to_show(const Join& join, const Settings& settings) {
  const bool has_other = !join.config_hash.empty() && join.config_hash != settings.config_hash;
  return has_other ? settings.config_outline : std::string();
}

std::string JoinWarnings::of(const Join& join, const Roster& roster) {
  std::vector<std::string> warnings;
  if (auto warning = compare_address(join, roster)) warnings.push_back(std::move(*warning));
  if (auto warning = compare_command(join)) warnings.push_back(std::move(*warning));
  return ddprun::join(warnings, "; ");
}

/// Compares with the command of the first node. Commands may differ on purpose, so this is only a
/// warning.
Problem JoinWarnings::compare_command(const Join& join) {
  if (join.command.empty() || join.command == first_command_) return std::nullopt;
  if (!first_command_.empty())
    return describe_difference(join.name, join.command, first_node_, first_command_);
  first_node_ = join.name;
  first_command_ = join.command;
  return std::nullopt;
}

}  // namespace ddprun::membership
