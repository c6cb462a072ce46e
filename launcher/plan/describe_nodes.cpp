#include "launcher/plan/describe_nodes.hpp"

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun {

namespace {

/// Returns nullopt if the number depends on the machine.
std::optional<int> number_of(const NamedNode& node) {
  const auto number = parse_integer(node.nproc_per_node, 1, kLocalWorkersMax);
  const auto* parsed = std::get_if<int>(&number);
  return parsed == nullptr ? std::nullopt : std::optional(*parsed);
}

std::string workers_text(int workers) {
  return std::to_string(workers) + (workers == 1 ? " worker" : " workers");
}

std::string ranks_text(int first, int count) {
  if (count == 1) return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + "-" + std::to_string(first + count - 1);
}

/// Returns the named nodes, with this node's number of workers resolved.
std::vector<NamedNode> resolved_nodes(const LaunchPlan& plan) {
  const auto& config = plan.options.from_config;
  auto nodes = config.nodes;
  if (config.own_node) {
    nodes[*config.own_node].nproc_per_node = std::to_string(plan.workers.size());
  }
  return nodes;
}

std::string meeting_text(const NodesPlan& nodes) {
  std::vector<std::string> places;
  if (nodes.etcd) {
    for (const auto& each : nodes.etcd->endpoints) {
      places.push_back(each.host + ":" + std::to_string(each.port));
    }
    return "meeting at one that they elect through etcd at " + join(places, ", ");
  }
  return "meeting at " + nodes.endpoint_host + ":" + std::to_string(nodes.endpoint_port);
}

std::string count_text(const membership::Settings& settings) {
  const auto most = std::to_string(settings.nodes_max);
  return settings.nodes_min == settings.nodes_max
             ? most
             : std::to_string(settings.nodes_min) + " to " + most;
}

}  // namespace

std::optional<ExpectedPlace> expected_place(const LaunchPlan& plan) {
  if (!plan.nodes || !plan.options.from_config.own_node) return std::nullopt;
  const auto nodes = resolved_nodes(plan);
  const auto own = *plan.options.from_config.own_node;
  const bool are_all = std::cmp_equal(nodes.size(), plan.nodes->settings.nodes_max);
  if (!are_all || std::cmp_not_equal(plan.nodes->node_rank, own)) return std::nullopt;
  ExpectedPlace place{.node_rank = static_cast<int>(own),
                      .node_count = static_cast<int>(nodes.size()),
                      .world_size = 0};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto workers = number_of(nodes[i]);
    if (!workers) return std::nullopt;
    if (i < own) place.first_rank += *workers;
    place.world_size += *workers;
  }
  return place;
}

std::vector<std::string> describe_named_nodes(const std::vector<NamedNode>& nodes) {
  std::vector<std::string> lines;
  for (const auto& node : nodes) {
    const auto workers = number_of(node);
    lines.push_back(node.name + (node.address.empty() ? "" : " (" + node.address + ")") + ", " +
                    (workers ? workers_text(*workers) : "nproc_per_node " + node.nproc_per_node));
  }
  return lines;
}

std::string describe_nodes(const LaunchPlan& plan) {
  const NodesPlan& own = *plan.nodes;
  std::string text = "nodes: " + count_text(own.settings) + ", " + meeting_text(own) + "\n";
  const auto workers = workers_text(static_cast<int>(plan.workers.size()));
  const auto own_node = plan.options.from_config.own_node;
  if (!own_node) {
    const auto rank = own.node_rank < 0 ? "" : std::to_string(own.node_rank) + ": ";
    return text + "  " + rank + own.name + ", " + workers +
           ", this machine; the others are known after the rendezvous\n";
  }
  const auto nodes = resolved_nodes(plan);
  const auto lines = describe_named_nodes(nodes);
  const bool has_ranks = expected_place(plan).has_value();
  int rank = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += "  " + std::to_string(i) + ": " + lines[i];
    if (has_ranks) {
      const int count = *number_of(nodes[i]);
      text += ", " + ranks_text(rank, count);
      rank += count;
    }
    text += i == *own_node ? ", this machine\n" : "\n";
  }
  if (!has_ranks) text += "  ranks are assigned at the rendezvous\n";
  return text;
}

}  // namespace ddprun
