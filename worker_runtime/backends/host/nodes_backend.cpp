#include "worker_runtime/backends/host/nodes_backend.hpp"

#include "worker_runtime/backends/host/shared_memory/call.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <utility>

namespace ddprun::host {

namespace {

constexpr int kScratchCount = 3;
// Share of the arena that one of them may take.
constexpr std::size_t kArenaShare = 8;
// Extra time of waits for a rank of this node that has entered the collective, so that the ranks
// report first that wait for another node.
constexpr auto kLocalGrace = 10 * tcp::kNetworkGrace;

}  // namespace

NodesBackend::NodesBackend(std::shared_ptr<const shared_memory::Region> region,
                           NodesOptions options, tcp::Socket listener, tcp::Socket message_listener,
                           Store store, std::optional<control::ControlPage> page)
    : layout_(std::move(options.layout)),
      rank_(options.mesh.rank),
      node_(layout_.node_of(rank_)),
      local_(std::move(region), layout_.local_rank(rank_), shared_memory::Reach::arenas,
             std::move(page), options.names.from(layout_.first_rank(node_))),
      failure_(local_.sync(), std::move(store), std::move(options.failure_key), rank_,
               std::move(options.names)),
      mesh_(std::move(options.mesh), std::move(listener), failure_),
      messages_(std::move(options.messages), std::move(message_listener), mesh_, failure_),
      presence_key_(std::move(options.presence_key)),
      scratch_(kScratchCount) {}

NodesBackend::~NodesBackend() = default;

/// Returns when all ranks have entered: each receives from a rank of every other node.
void NodesBackend::enter(Deadline deadline) {
  local_.enter(deadline);
  messages_.enter();
  shared_memory::CallHeader meeting{};
  meeting.sequence = tcp::kJoinSequence;
  meeting.collective = Collective::barrier;
  tcp::Exchange exchange(mesh_, failure_, meeting, 0);
  for (const int peer : layout_.neighbours(rank_)) {
    exchange.send(peer, nullptr, 0);
    exchange.receive(peer, nullptr, 0);
  }
  exchange.run(deadline);
  failure_.use_store([&](Store& store) { store.erase(presence_key_, deadline); });
}

void NodesBackend::leave() noexcept {
  messages_.leave();
  mesh_.leave();
  local_.leave();
}

/// Does not name ranks of other nodes, which may be waiting for a rank there.
std::string NodesBackend::stall_reason() const {
  const std::string here = local_.stall_reason();
  const auto silent = mesh_.awaited();
  if (!here.empty() || silent.empty()) return here;
  return "nothing had come from rank(s) " + failure_.names().list(silent);
}

void NodesBackend::abort(const std::string& reason) noexcept {
  failure_.abort(reason);
  mesh_.cut();
}

void NodesBackend::run(const Operation& operation, Deadline deadline) {
  try {
    if (is_message(operation.collective)) return pass_message(operation, deadline);
    local_.begin(operation, layout_.ranks(), deadline);
    const std::uint64_t number = local_.collectives() - 1;
    const shared_memory::Call whole(operation, deadline, layout_.ranks(), number);
    Call call{.operation = operation, .deadline = deadline, .header = header_of(whole)};
    dispatch(call);
  } catch (const std::exception& error) {
    failure_.fail_own(error.what());
    mesh_.cut();
    throw;
  }
}

void NodesBackend::dispatch(Call& call) {
  switch (call.operation.collective) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::broadcast:
      return broadcast(call);
    case Collective::all_gather:
    case Collective::new_group:
      return all_gather(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::reduce:
      return reduce(call);
    case Collective::gather:
      return gather(call);
    case Collective::scatter:
      return scatter(call);
    case Collective::all_to_all:
      return all_to_all(call);
    case Collective::barrier:
      return barrier(call);
    case Collective::send:
    case Collective::recv:
      return;  // see pass_message()
  }
}

void NodesBackend::pass_message(const Operation& operation, Deadline deadline) {
  failure_.check();
  if (layout_.node_of(operation.peer) == node_) {
    Operation within = operation;
    within.peer = layout_.local_rank(operation.peer);
    local_.run(within, deadline);
  } else if (operation.collective == Collective::send) {
    messages_.send(operation, deadline);
  } else {
    messages_.recv(operation, deadline);
  }
}

void NodesBackend::transfer(Call& call, const Transfers& transfers, Buffer buffer) {
  tcp::Exchange exchange = next_exchange(call);
  for (const auto& [peer, range] : transfers.sends) {
    const Buffer part = buffer.slice(range.first, range.count);
    exchange.send(peer, part.data, part.bytes());
  }
  for (const auto& [peer, range] : transfers.receives) {
    const Buffer part = buffer.slice(range.first, range.count);
    exchange.receive(peer, part.data, part.bytes());
  }
  exchange.run(call.deadline);
}

/// Each mover of this node has its lane of the buffer; afterwards all ranks have the whole buffer.
void NodesBackend::share_lanes(Call& call, const collectives::LanePlan& plan, Buffer buffer) {
  for (int lane = 0; lane < layout_.lanes(); ++lane) {
    const auto range = plan.lane(lane);
    local_broadcast(call, buffer.slice(range.first, range.count), lane);
  }
}

void NodesBackend::local(const Call& call, const Operation& part) {
  local_.run_part(part, call.deadline.later(kLocalGrace));
}

void NodesBackend::local_broadcast(const Call& call, Buffer buffer, int local_root) {
  if (buffer.elements == 0 || own_ranks() == 1) return;
  local(
      call,
      {.collective = Collective::broadcast, .input = buffer, .output = buffer, .peer = local_root});
}

/// Allocates group memory, which needs no copies, or private memory if this would take much of the
/// arena from the program.
Buffer NodesBackend::scratch(int which, std::size_t elements, DataType type) {
  Scratch& one = scratch_[static_cast<std::size_t>(which)];
  const std::size_t bytes = elements * size_of(type);
  if (one.bytes < bytes) {
    one.memory.reset();
    if (bytes <= local_.arena_bytes() / kArenaShare) one.memory = local_.try_allocate(bytes);
    if (!one.memory) one.memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
    one.bytes = bytes;
  }
  return {one.memory.get(), elements, type};
}

}  // namespace ddprun::host
