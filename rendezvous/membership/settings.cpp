#include "rendezvous/membership/settings.hpp"

#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/node_order.hpp"

#include <algorithm>
#include <cstddef>

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
           "rendezvous has "
           "none";
  }
  return "the configuration file (--config) is another one than on the node that hosts the "
         "rendezvous";
}

std::string range(int least, int most) {
  const auto text = std::to_string(most);
  return least == most ? text : std::to_string(least) + ":" + text;
}

std::string out_of_range(const std::string& what, int value, int least, int most) {
  if (value >= least && value <= most) return {};
  return what + " is " + std::to_string(value) + " on the node that joins (from " +
         std::to_string(least) + " to " + std::to_string(most) + ")";
}

std::string number_out_of_range(const Join& join, int nodes_max) {
  for (auto text : {out_of_range("--nproc_per_node", join.local_world_size, 1, kLocalWorkersMax),
                    out_of_range("--node_rank", join.node_rank, -1, nodes_max - 1),
                    out_of_range("the latest round", join.last_round, -1, kRoundMax),
                    out_of_range("the number of restarts", join.restarts_used, 0, kRoundMax)}) {
    if (!text.empty()) return text;
  }
  return {};
}

/// Returns text that begins with "; ", or empty.
std::string describe_missing(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings) {
  const bool is_first = last_round.empty();
  auto missing = is_first ? settings.expected_nodes : last_round;
  bool are_known = true;
  for (const auto& name : present) {
    const auto found = std::find(missing.begin(), missing.end(), name);
    if (found != missing.end())
      missing.erase(found);
    else
      are_known = false;
  }
  // Nodes with unexpected names may be the ones that seem to be missing.
  if (missing.empty() || (is_first && !are_known)) return {};
  if (is_first) return "; missing: " + listed(missing);
  const bool is_one = missing.size() == 1;
  return "; " + listed(missing) + (is_one ? " was" : " were") + " in the last round and " +
         (is_one ? "has" : "have") + " not come back";
}

}  // namespace

std::string objection_to_version(std::uint32_t version) {
  if (version == kProtocolVersion) return {};
  return differs("the version of the agents' messages", std::to_string(version),
                 std::to_string(kProtocolVersion));
}

std::string objection_to_name(const std::string& name, const Settings& settings) {
  if (name.size() > kNameBytesMax) return too_long("the node's name", name);
  const auto most = settings.recorded_name_bytes_max;
  const auto bytes = bytes_as_json(name);
  if (most == 0 || bytes <= most) return {};
  return "the node's name takes " + std::to_string(bytes) +
         " bytes of what is recorded of the run in etcd (at most " + std::to_string(most) +
         ", so that " + counted_nodes(settings.nodes_max) + " fit; --local_addr gives another)";
}

std::string objection_to(const Join& join, const Settings& settings) {
  if (auto text = objection_to_version(join.version); !text.empty()) return text;
  if (auto text = objection_to_name(join.name, settings); !text.empty()) return text;
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

std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings) {
  const auto count = static_cast<int>(present.size());
  return counted_nodes(count) + " of at least " + std::to_string(settings.nodes_min) +
         (count == 1 ? " is here" : " are here") +
         (present.empty() ? "" : " (" + listed(present) + ")") +
         describe_missing(present, last_round, settings);
}

std::string describe_shortage(const std::vector<std::string>& present,
                              const std::vector<std::string>& last_round,
                              const Settings& settings) {
  return "only " + std::to_string(present.size()) + " of at least " +
         std::to_string(settings.nodes_min) + " nodes came within " +
         seconds_text(settings.join_timeout) + " (join_timeout)" +
         (present.empty() ? "" : ": " + listed(present)) +
         describe_missing(present, last_round, settings);
}

Time first_notice(Time now) {
  constexpr std::chrono::milliseconds kStep(250);
  const auto since_step = now.time_since_epoch() % kStep;
  return now - since_step + 2 * kStep;
}

std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end(), natural_less);
  const auto count = names.size();
  names.resize(std::min(count, kNamesListedMax));
  auto text = join(names, ", ");
  if (count > names.size()) text += " and " + std::to_string(count - names.size()) + " more";
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  const auto tenths = (time.count() + 50) / 100;
  auto text = std::to_string(tenths / 10);
  if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
  return text + " s";
}

std::string counted_nodes(int count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

}  // namespace ddprun::membership
