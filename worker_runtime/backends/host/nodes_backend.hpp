// Backend for several nodes: shared memory within a node, TCP between nodes.
//
// A reduction combines the contributions of a node's ranks in rank order, then the partial results
// of the nodes in node order. Partial results of half types and of averages of small integers are
// wider. So the bits of a result depend on the distribution of ranks over nodes, but not on the
// message size, the position of an element or timing. With one rank per node they equal those of
// shared memory.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"
#include "worker_runtime/backends/host/tcp/exchange.hpp"
#include "worker_runtime/backends/host/tcp/mesh.hpp"
#include "worker_runtime/backends/host/tcp/messenger.hpp"
#include "worker_runtime/backends/rank_names.hpp"
#include "worker_runtime/collectives/node_layout.hpp"
#include "worker_runtime/collectives/node_schedule.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::host {

/// Maximum size for which one rank of each node sends all data to every other node in one step. For
/// larger sizes, all lanes share the work in two steps.
inline constexpr std::size_t kOneStepBytes = 16 << 10;

struct NodesOptions {
  collectives::NodeLayout layout;
  RankNames names;
  tcp::MeshOptions mesh;
  tcp::MessengerOptions messages;
  std::string failure_key;   ///< key in the store
  std::string presence_key;  ///< key in the store; removed when all ranks are connected
};

class NodesBackend final : public WatchfulBackend {
 public:
  NodesBackend(std::shared_ptr<const shared_memory::Region> region, NodesOptions options,
               tcp::Socket listener, tcp::Socket message_listener, Store store,
               std::optional<control::ControlPage> page);
  ~NodesBackend() override;

  void enter(Deadline deadline) override;
  void leave() noexcept override;
  void run(const Operation& operation, Deadline deadline) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override { return local_.allocate(bytes); }
  std::string stall_reason() const override;
  void abort(const std::string& reason) noexcept override;
  void check() const override { failure_.check(); }

 private:
  using Transfers = collectives::Transfers;

  /// The current collective.
  struct Call {
    const Operation& operation;
    Deadline deadline;
    shared_memory::CallHeader header;
    std::uint32_t steps = 0;
  };

  /// Reused memory of the size of the largest message.
  struct Scratch {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };

  void dispatch(Call& call);
  void pass_message(const Operation& operation, Deadline deadline);

  // Reductions, in node_reductions.cpp.
  void all_reduce(Call& call);
  void reduce(Call& call);
  void reduce_scatter(Call& call);
  Buffer contribution(const Call& call, bool in_place);
  void combine_locally(Call& call, Buffer values);
  void combine_between_nodes(Call& call, const Transfers& transfers, Buffer values,
                             collectives::Range range, Buffer result);
  void combine_range(const Call& call, const std::vector<const std::byte*>& sources,
                     collectives::Range range, Buffer values, Buffer result) const;

  // Data movement, in node_movements.cpp.
  void broadcast(Call& call);
  void all_gather(Call& call);
  void gather(Call& call);
  void scatter(Call& call);
  void all_to_all(Call& call);
  void barrier(Call& call);

  // Steps of collectives.
  tcp::Exchange next_exchange(Call& call) { return {mesh_, failure_, call.header, call.steps++}; }
  void transfer(Call& call, const Transfers& transfers, Buffer buffer);
  void share_lanes(Call& call, const collectives::LanePlan& plan, Buffer buffer);
  void local(const Call& call, const Operation& part);
  void local_broadcast(const Call& call, Buffer buffer, int local_root);
  Buffer scratch(int which, std::size_t elements, DataType type);

  bool is_leader() const { return rank_ == layout_.first_rank(node_); }
  int leader_of(int node) const { return layout_.first_rank(node); }
  int own_ranks() const { return layout_.ranks_on(node_); }

  collectives::NodeLayout layout_;
  int rank_;
  int node_;
  shared_memory::SharedMemoryBackend local_;
  tcp::FirstFailure failure_;
  tcp::Mesh mesh_;
  tcp::Messenger messages_;
  std::string presence_key_;
  std::vector<Scratch> scratch_;
};

}  // namespace ddprun::host
