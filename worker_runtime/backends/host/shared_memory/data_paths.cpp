// Data movement of the collectives, for contributions in the ranks' buffers and in slots.
#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"
#include "worker_runtime/collectives/float_environment.hpp"
#include "worker_runtime/collectives/reduce_kernels.hpp"

#include <cstring>

namespace ddprun::shared_memory {

namespace {

using collectives::Range;

/// Regions may be empty, or equal for in-place calls.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

bool SharedMemoryBackend::is_reachable(const Call& call) const {
  const Operation& operation = call.operation;
  if (!call.contributes(rank_)) return true;
  // In place, this rank would overwrite data that others have not read.
  if (operation.collective == Collective::all_to_all && call.input() == call.output()) return false;
  return reach_ == Reach::everything ||
         region_.in_arenas(operation.input.data, operation.input.bytes());
}

/// Only the own part of an input with a part per rank is read.
void SharedMemoryBackend::Source::use_input(int rank, const Call& call, Range range) {
  if (!call.contributes(rank)) return;
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t part = call.parts > 1 ? own : 0;
  ranks[own] =
      call.input() + range.first * call.element_bytes + part * (call.part_bytes() - part_bytes);
}

SharedMemoryBackend::Source SharedMemoryBackend::inline_source(const Call& call) const {
  Source source(call.part_bytes());
  for (int rank = 0; rank < ranks_; ++rank)
    source.ranks[static_cast<std::size_t>(rank)] = slot(rank).payload;
  source.use_input(rank_, call, {0, call.part_elements});
  return source;
}

SharedMemoryBackend::Source SharedMemoryBackend::tiny_source(const Call& call) const {
  Source source(call.part_bytes());
  for (int rank = 0; rank < ranks_; ++rank) {
    source.ranks[static_cast<std::size_t>(rank)] =
        region_.line(rank).step(round_).tiny.payload.data();
  }
  source.use_input(rank_, call, {0, call.part_elements});
  return source;
}

SharedMemoryBackend::Source SharedMemoryBackend::direct_source(const Call& call) const {
  Source source(call.part_bytes());
  for (int rank = 0; rank < ranks_; ++rank)
    source.ranks[static_cast<std::size_t>(rank)] = region_.base() + slot(rank).header.input;
  return source;
}

void SharedMemoryBackend::stage(const Call& call, Range range, std::byte* to) const {
  if (ranks_ == 1 || !call.is_read_by_others(rank_)) return;
  const std::size_t bytes = range.count * call.element_bytes;
  for (std::size_t part = 0; part < call.parts; ++part) {
    if (call.parts > 1 && part == static_cast<std::size_t>(rank_)) continue;  // only read here
    copy_bytes(to + part * bytes,
               call.input() + part * call.part_bytes() + range.first * call.element_bytes, bytes);
  }
}

void SharedMemoryBackend::combine(const Call& call, Range range, const Source& source,
                                  std::size_t part, std::span<void* const> destinations) const {
  std::array<const void*, kRanksMax> sources;
  for (int rank = 0; rank < ranks_; ++rank) {
    sources[static_cast<std::size_t>(rank)] =
        source.at(rank, part) + range.first * call.element_bytes;
  }
  const collectives::DefaultFloatEnvironment environment;
  collectives::combine_function(call.operation.input.type, call.operation.op)(
      sources.data(), static_cast<std::size_t>(ranks_), destinations.data(), destinations.size(),
      range.count);
}

void SharedMemoryBackend::consume(const Call& call, Range range, const Source& source) const {
  const std::size_t first = range.first * call.element_bytes;
  const std::size_t bytes = range.count * call.element_bytes;
  const int root = call.operation.peer;
  const auto own = static_cast<std::size_t>(rank_);
  void* const target = call.output() + first;
  switch (call.operation.collective) {
    case Collective::reduce:
      if (rank_ == root) combine(call, {0, range.count}, source, 0, {&target, 1});
      break;
    case Collective::all_reduce:
      combine(call, {0, range.count}, source, 0, {&target, 1});
      break;
    case Collective::reduce_scatter:
      combine(call, {0, range.count}, source, own, {&target, 1});
      break;
    case Collective::broadcast:
      if (rank_ != root) copy_bytes(call.output() + first, source.at(root, 0), bytes);
      break;
    case Collective::scatter:
      copy_bytes(call.output() + first, source.at(root, own), bytes);
      break;
    case Collective::gather:
      if (rank_ != root) break;
      [[fallthrough]];
    case Collective::all_gather:
    case Collective::new_group:
    case Collective::all_to_all:
      // Each rank starts with another one, to spread accesses over all ranks' memory.
      for (int i = 0; i < ranks_; ++i) {
        const int rank = (rank_ + i) % ranks_;
        copy_bytes(call.output() + static_cast<std::size_t>(rank) * call.part_bytes() + first,
                   source.at(rank, call.parts > 1 ? own : 0), bytes);
      }
      break;
    case Collective::send:
    case Collective::recv:
    case Collective::barrier:
      break;
  }
}

/// Each rank reduces one slice and stores it for all ranks that need it.
void SharedMemoryBackend::work_on_buffers(const Call& call) const {
  const Source source = direct_source(call);
  const Collective collective = call.operation.collective;
  if (collective != Collective::all_reduce && collective != Collective::reduce)
    return consume(call, {0, call.part_elements}, source);
  const Range slice = collectives::slice_of(call.part_elements, call.element_bytes, ranks_, rank_);
  std::array<void*, kRanksMax> destinations;
  std::size_t count = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (collective == Collective::reduce && rank != call.operation.peer) continue;
    destinations[count++] =
        region_.base() + slot(rank).header.input + slice.first * call.element_bytes;
  }
  combine(call, slice, source, 0, {destinations.data(), count});
}

}  // namespace ddprun::shared_memory
