// Collectives over nodes that only move data, and the barrier.
#include "worker_runtime/backends/host/nodes_backend.hpp"

#include <cstring>

namespace ddprun::host {

namespace {

using collectives::LanePlan;
using collectives::Range;
using collectives::slice_of;

/// Returns rank r's part of a buffer with `ranks` parts.
Buffer part_of(Buffer whole, std::size_t part_elements, int rank, int ranks = 1) {
  return whole.slice(static_cast<std::size_t>(rank) * part_elements,
                     static_cast<std::size_t>(ranks) * part_elements);
}

}  // namespace

void NodesBackend::broadcast(Call& call) {
  const Buffer buffer = call.operation.output;
  const int root = call.operation.peer;
  const int root_node = layout_.node_of(root);
  const bool is_at_root = node_ == root_node;
  const int local_root = layout_.local_rank(root);
  if (buffer.bytes() <= kOneStepBytes) {
    tcp::Exchange exchange = next_exchange(call);
    for (int node = 0; node < layout_.nodes(); ++node) {
      if (node == root_node) continue;
      const int receiver = layout_.partner(root, node);
      if (rank_ == root) exchange.send(receiver, buffer.data, buffer.bytes());
      if (rank_ == receiver) exchange.receive(root, buffer.data, buffer.bytes());
    }
    exchange.run(call.deadline);
    const int holder = is_at_root ? local_root : local_root % own_ranks();
    return local_broadcast(call, buffer, holder);
  }
  const LanePlan plan(layout_, buffer.elements, size_of(buffer.type));
  if (is_at_root) local_broadcast(call, buffer, local_root);
  transfer(call, plan.to_owners_from(rank_, root_node), buffer);
  transfer(call, plan.from_owners(rank_, root_node), buffer);
  if (!is_at_root) share_lanes(call, plan, buffer);
}

void NodesBackend::all_gather(Call& call) {
  const Buffer input = call.operation.input;
  const Buffer output = call.operation.output;
  const auto block_of = [&](int node) {
    return part_of(output, input.elements, layout_.first_rank(node), layout_.ranks_on(node));
  };
  const Buffer own = block_of(node_);
  local(call, {.collective = Collective::all_gather, .input = input, .output = own});
  const int lanes = output.bytes() <= kOneStepBytes ? 1 : layout_.lanes();
  const auto lane_of = [&](Buffer block, int lane) {
    const Range range = slice_of(block.elements, size_of(block.type), lanes, lane);
    return block.slice(range.first, range.count);
  };
  const int lane = layout_.local_rank(rank_);
  tcp::Exchange exchange = next_exchange(call);
  for (int node = 0; node < layout_.nodes() && lane < lanes; ++node) {
    if (node == node_) continue;
    const int peer = layout_.first_rank(node) + lane;
    const Buffer sent = lane_of(own, lane);
    const Buffer received = lane_of(block_of(node), lane);
    exchange.send(peer, sent.data, sent.bytes());
    exchange.receive(peer, received.data, received.bytes());
  }
  exchange.run(call.deadline);
  for (int node = 0; node < layout_.nodes(); ++node) {
    for (int other = 0; other < lanes && node != node_; ++other)
      local_broadcast(call, lane_of(block_of(node), other), other);
  }
}

void NodesBackend::gather(Call& call) {
  const Buffer input = call.operation.input;
  const int root = call.operation.peer;
  const bool is_root = rank_ == root;
  const int root_node = layout_.node_of(root);
  if (node_ == root_node) {
    const Buffer output = call.operation.output;
    const Buffer block =
        is_root ? part_of(output, input.elements, layout_.first_rank(node_), own_ranks()) : output;
    local(call, {.collective = Collective::gather,
                 .input = input,
                 .output = block,
                 .peer = layout_.local_rank(root)});
  }
  tcp::Exchange exchange = next_exchange(call);
  if (node_ != root_node) exchange.send(root, input.data, input.bytes());
  for (int rank = 0; rank < layout_.ranks() && is_root; ++rank) {
    if (layout_.node_of(rank) == node_) continue;
    const Buffer part = part_of(call.operation.output, input.elements, rank);
    exchange.receive(rank, part.data, part.bytes());
  }
  exchange.run(call.deadline);
}

void NodesBackend::scatter(Call& call) {
  const Buffer output = call.operation.output;
  const int root = call.operation.peer;
  const bool is_root = rank_ == root;
  const int root_node = layout_.node_of(root);
  tcp::Exchange exchange = next_exchange(call);
  if (node_ != root_node) exchange.receive(root, output.data, output.bytes());
  for (int rank = 0; rank < layout_.ranks() && is_root; ++rank) {
    if (layout_.node_of(rank) == node_) continue;
    const Buffer part = part_of(call.operation.input, output.elements, rank);
    exchange.send(rank, part.data, part.bytes());
  }
  exchange.run(call.deadline);
  if (node_ != root_node) return;
  const Buffer input = call.operation.input;
  const Buffer block =
      is_root ? part_of(input, output.elements, layout_.first_rank(node_), own_ranks()) : input;
  local(call, {.collective = Collective::scatter,
               .input = block,
               .output = output,
               .peer = layout_.local_rank(root)});
}

void NodesBackend::all_to_all(Call& call) {
  Buffer input = call.operation.input;
  const Buffer output = call.operation.output;
  if (input.data == output.data) {
    // Received data would overwrite data that has not been sent.
    const Buffer copy = scratch(0, input.elements, input.type);
    if (input.bytes() > 0) std::memcpy(copy.data, input.data, input.bytes());
    input = copy;
  }
  const std::size_t part = input.elements / static_cast<std::size_t>(layout_.ranks());
  const int first = layout_.first_rank(node_);
  local(call, {.collective = Collective::all_to_all,
               .input = part_of(input, part, first, own_ranks()),
               .output = part_of(output, part, first, own_ranks())});
  tcp::Exchange exchange = next_exchange(call);
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    if (layout_.node_of(rank) == node_) continue;
    const Buffer sent = part_of(input, part, rank);
    const Buffer received = part_of(output, part, rank);
    exchange.send(rank, sent.data, sent.bytes());
    exchange.receive(rank, received.data, received.bytes());
  }
  exchange.run(call.deadline);
}

/// A leader sends when all ranks of its node have entered; ranks return when it has received from
/// all other leaders.
void NodesBackend::barrier(Call& call) {
  tcp::Exchange exchange = next_exchange(call);
  for (int node = 0; node < layout_.nodes() && is_leader(); ++node) {
    if (node == node_) continue;
    exchange.send(leader_of(node), nullptr, 0);
    exchange.receive(leader_of(node), nullptr, 0);
  }
  exchange.run(call.deadline);
  local(call, {.collective = Collective::barrier});
}

}  // namespace ddprun::host
