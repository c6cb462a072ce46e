#include "worker_runtime/collectives/node_schedule.hpp"

#include <utility>

namespace ddprun::collectives {

namespace {

void add(std::vector<Transfer>& transfers, int peer, Range range) {
  if (range.count > 0) transfers.push_back({peer, range});
}

}  // namespace

Range LanePlan::lane(int lane) const {
  return slice_of(elements_, element_bytes_, layout_.lanes(), lane);
}

Range LanePlan::part(int lane_number, int node) const {
  const Range whole = lane(lane_number);
  const Range within = slice_of(whole.count, element_bytes_, layout_.nodes(), node);
  return {whole.first + within.first, within.count};
}

int LanePlan::lane_of(int rank) const {
  const int local = layout_.local_rank(rank);
  return local < layout_.lanes() ? local : -1;
}

Transfers LanePlan::to_owners(int rank) const {
  Transfers transfers;
  const int own_lane = lane_of(rank);
  const int own_node = layout_.node_of(rank);
  for (int node = 0; node < layout_.nodes() && own_lane >= 0; ++node) {
    if (node == own_node) continue;
    const int peer = layout_.first_rank(node) + own_lane;
    add(transfers.sends, peer, part(own_lane, node));
    add(transfers.receives, peer, part(own_lane, own_node));
  }
  return transfers;
}

Transfers LanePlan::from_owners(int rank, int except) const {
  Transfers transfers;
  const int own_lane = lane_of(rank);
  const int own_node = layout_.node_of(rank);
  for (int node = 0; node < layout_.nodes() && own_lane >= 0; ++node) {
    if (node == own_node) continue;
    const int peer = layout_.first_rank(node) + own_lane;
    if (node != except) add(transfers.sends, peer, part(own_lane, own_node));
    if (own_node != except) add(transfers.receives, peer, part(own_lane, node));
  }
  return transfers;
}

Transfers LanePlan::owners_to(int rank, int node) const {
  return reversed(to_owners_from(rank, node));
}

Transfers LanePlan::to_owners_from(int rank, int node) const {
  Transfers transfers;
  const int own_lane = lane_of(rank);
  if (own_lane < 0) return transfers;
  const int own_node = layout_.node_of(rank);
  if (own_node != node) {
    add(transfers.receives, layout_.first_rank(node) + own_lane, part(own_lane, own_node));
    return transfers;
  }
  for (int other = 0; other < layout_.nodes(); ++other) {
    if (other != node)
      add(transfers.sends, layout_.first_rank(other) + own_lane, part(own_lane, other));
  }
  return transfers;
}

Transfers LanePlan::reversed(Transfers transfers) const {
  std::swap(transfers.sends, transfers.receives);
  return transfers;
}

}  // namespace ddprun::collectives
