// Reductions over nodes.
#include "worker_runtime/backends/host/nodes_backend.hpp"
#include "worker_runtime/collectives/float_environment.hpp"
#include "worker_runtime/collectives/reduce_kernels.hpp"
#include "worker_runtime/collectives/wide_types.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::host {

namespace {

using collectives::LanePlan;
using collectives::Range;

enum { kPartials, kResult, kArrivals };  // purposes of scratch buffers

void copy(Buffer from, Buffer to) {
  if (from.bytes() > 0 && from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
}

}  // namespace

/// Returns this rank's input in the type of partial results, in memory that may be overwritten.
Buffer NodesBackend::contribution(const Call& call, bool in_place) {
  const Buffer& input = call.operation.input;
  // With one rank per node there are no partial results to keep wide.
  if (layout_.is_flat()) return input;
  const DataType type = collectives::partial_type(input.type, call.operation.op);
  if (type == input.type && in_place) return input;
  const Buffer values = scratch(kPartials, input.elements, type);
  collectives::widen(input.type, call.operation.op, input.data, values.data, input.elements);
  return values;
}

/// Reduces over the ranks of this node; all of them get the result.
void NodesBackend::combine_locally(Call& call, Buffer values) {
  if (own_ranks() == 1) return;
  local(call, {.collective = Collective::all_reduce,
               .input = values,
               .output = values,
               .op = collectives::partial_op(call.operation.op)});
}

/// Receives the partial results of the other nodes for `range` of the message and combines them
/// with `values`, those of this node, into `result`.
void NodesBackend::combine_between_nodes(Call& call, const Transfers& transfers, Buffer values,
                                         Range range, Buffer result) {
  tcp::Exchange exchange = next_exchange(call);
  for (const auto& [peer, sent] : transfers.sends) {
    const Buffer part = values.slice(sent.first, sent.count);
    exchange.send(peer, part.data, part.bytes());
  }
  const Buffer own = values.slice(range.first, range.count);
  const Buffer arrivals = scratch(kArrivals, transfers.receives.size() * range.count, values.type);
  std::vector<const std::byte*> sources(static_cast<std::size_t>(layout_.nodes()));
  sources[static_cast<std::size_t>(node_)] = static_cast<const std::byte*>(own.data);
  for (std::size_t i = 0; i < transfers.receives.size(); ++i) {
    const Buffer place = arrivals.slice(i * range.count, range.count);
    const int peer = transfers.receives[i].peer;
    sources[static_cast<std::size_t>(layout_.node_of(peer))] =
        static_cast<const std::byte*>(place.data);
    exchange.receive(peer, place.data, place.bytes());
  }
  std::size_t combined = 0;
  const auto combine_more = [&] {
    std::size_t complete = range.count;
    for (std::size_t i = 0; i < transfers.receives.size(); ++i)
      complete = std::min(complete, exchange.received(i) / size_of(values.type));
    if (complete == combined) return;
    combine_range(call, sources, {combined, complete - combined}, values, result);
    combined = complete;
  };
  // Data that is being sent must not be overwritten.
  const bool sends_own =
      std::any_of(transfers.sends.begin(), transfers.sends.end(),
                  [&](const collectives::Transfer& sent) { return sent.range == range; });
  exchange.run(call.deadline, sends_own ? std::function<void()>() : combine_more);
  combine_more();
}

/// `range` is relative to the start of sources and result.
void NodesBackend::combine_range(const Call& call, const std::vector<const std::byte*>& sources,
                                 Range range, Buffer values, Buffer result) const {
  const collectives::DefaultFloatEnvironment environment;
  const ReduceOp op = call.operation.op;
  std::vector<const void*> from;
  for (const std::byte* source : sources)
    from.push_back(source + range.first * size_of(values.type));
  const Buffer to = result.slice(range.first, range.count);
  if (layout_.is_flat()) {
    collectives::combine_function(values.type, op)(from.data(), from.size(), &to.data, 1,
                                                   range.count);
    return;
  }
  // Overwrites this node's own part, which is no longer needed.
  const Buffer partial{const_cast<std::byte*>(sources[static_cast<std::size_t>(node_)]) +
                           range.first * size_of(values.type),
                       range.count, values.type};
  collectives::combine_function(values.type, collectives::partial_op(op))(
      from.data(), from.size(), &partial.data, 1, range.count);
  collectives::complete(result.type, op, layout_.ranks(), partial, to.data);
}

void NodesBackend::all_reduce(Call& call) {
  const Buffer output = call.operation.output;
  const Buffer values = contribution(call, true);
  combine_locally(call, values);
  if (output.bytes() <= kOneStepBytes) {
    Transfers everything;
    const Range whole{0, output.elements};
    for (int node = 0; node < layout_.nodes() && is_leader(); ++node) {
      if (node == node_) continue;
      everything.sends.push_back({leader_of(node), whole});
      everything.receives.push_back({leader_of(node), whole});
    }
    if (is_leader()) combine_between_nodes(call, everything, values, whole, output);
    return local_broadcast(call, output, 0);
  }
  const LanePlan plan(layout_, output.elements, size_of(values.type));
  if (const int lane = plan.lane_of(rank_); lane >= 0) {
    const Range part = plan.part(lane, node_);
    combine_between_nodes(call, plan.to_owners(rank_), values, part,
                          output.slice(part.first, part.count));
    transfer(call, plan.from_owners(rank_), output);
  }
  share_lanes(call, plan, output);
}

/// Like all_reduce, but only the root's node gets the result, and other buffers do not change.
void NodesBackend::reduce(Call& call) {
  const Operation& operation = call.operation;
  const int root = operation.peer;
  const int root_node = layout_.node_of(root);
  const Buffer values = contribution(call, false);
  combine_locally(call, values);
  const Buffer result = scratch(kResult, operation.input.elements, operation.input.type);
  const LanePlan plan(layout_, result.elements, size_of(values.type));
  if (const int lane = plan.lane_of(rank_); lane >= 0) {
    const Range part = plan.part(lane, node_);
    combine_between_nodes(call, plan.to_owners(rank_), values, part,
                          result.slice(part.first, part.count));
    transfer(call, plan.owners_to(rank_, root_node), result);
  }
  if (node_ != root_node) return;
  share_lanes(call, plan, result);
  if (rank_ == root) copy(result, operation.output);
}

/// Each rank reduces its own part, which one rank of each other node sends.
void NodesBackend::reduce_scatter(Call& call) {
  const Buffer output = call.operation.output;
  const Buffer values = contribution(call, false);
  combine_locally(call, values);
  const auto part_of = [&](int rank) {
    return Range{static_cast<std::size_t>(rank) * output.elements, output.elements};
  };
  Transfers transfers;
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    const int node = layout_.node_of(peer);
    if (node == node_) continue;
    if (layout_.partner(peer, node_) == rank_) transfers.sends.push_back({peer, part_of(peer)});
  }
  for (int node = 0; node < layout_.nodes(); ++node) {
    if (node != node_) transfers.receives.push_back({layout_.partner(rank_, node), part_of(rank_)});
  }
  combine_between_nodes(call, transfers, values, part_of(rank_), output);
}

}  // namespace ddprun::host
