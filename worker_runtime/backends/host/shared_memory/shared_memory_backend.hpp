// Collectives of ranks that share memory: processes or threads. The two differ in how the memory is
// created and in which memory of each other they can access.
//
// A collective begins with a round in which all ranks publish their calls, so that a different call
// is detected before data moves. All ranks then choose the same one of four paths:
//   tiny     up to 40 bytes: the data is in the cache line that announces the call;
//   inline   up to 2 KiB: the data is in the slots of the call; each rank computes its own result;
//   direct   all ranks can access all inputs, and use them without copies;
//   staged   otherwise: in pieces through pipes.
// All paths combine an element in rank order with the same kernel, so results are bitwise equal.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/shared_memory/arena.hpp"
#include "worker_runtime/backends/host/shared_memory/call.hpp"
#include "worker_runtime/backends/host/shared_memory/messages.hpp"
#include "worker_runtime/backends/host/shared_memory/region.hpp"
#include "worker_runtime/backends/host/shared_memory/sync.hpp"
#include "worker_runtime/collectives/slicing.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ddprun::shared_memory {

/// Buffers of a rank that other ranks can access.
enum class Reach {
  arenas,      ///< buffers in arenas: the ranks are processes
  everything,  ///< all buffers: the ranks are threads of one process
};

class SharedMemoryBackend final : public WatchfulBackend {
 public:
  /// `names`: of the region's ranks.
  SharedMemoryBackend(std::shared_ptr<const Region> region, int rank, Reach reach,
                      std::optional<control::ControlPage> page, RankNames names = {});
  ~SharedMemoryBackend() override;

  void enter(Deadline deadline) override;
  void leave() noexcept override;
  void run(const Operation& operation, Deadline deadline) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  std::string stall_reason() const override;
  void abort(const std::string& reason) noexcept override;
  void check() const override { sync_.check_all(); }

  // For groups that extend beyond this shared memory, instead of run():

  /// Waits until all ranks of this node have begun `whole`, a collective of a group of
  /// `group_ranks`, and checks that their calls are equal. Root and counts are those of the whole
  /// group.
  void begin(const Operation& whole, int group_ranks, Deadline deadline);
  /// Runs a step of the collective among the ranks of this node, which are numbered from 0.
  void run_part(const Operation& part, Deadline deadline);
  const Sync& sync() const { return sync_; }
  /// Like allocate(); null if the arena is full.
  std::shared_ptr<void> try_allocate(std::size_t bytes);
  /// Returns the size of this rank's arena.
  std::size_t arena_bytes() const { return region_.arena_bytes(); }
  /// Returns the number of collectives begun.
  std::uint64_t collectives() const { return collectives_; }

 private:
  struct Memory;

  /// Address of each rank's contribution to a round. Entries beyond the group's ranks are
  /// uninitialised, since zeroing kRanksMax of them would dominate a small collective.
  struct Source {
    explicit Source(std::size_t bytes_per_part) : part_bytes(bytes_per_part) {}

    std::array<const std::byte*, kRanksMax> ranks;
    std::size_t part_bytes;

    /// Makes the calling rank, `rank`, read its own contribution to `range` of the parts in its
    /// input. Without effect if it has none.
    void use_input(int rank, const Call& call, collectives::Range range);
    const std::byte* at(int rank, std::size_t part) const {
      return ranks[static_cast<std::size_t>(rank)] + part * part_bytes;
    }
  };

  // Control flow, in shared_memory_backend.cpp and staged.cpp.
  void run_collective(const Call& call);
  void run_tiny(const Call& call);
  void run_direct(const Call& call);
  void run_staged(const Call& call);
  /// Returns true if each rank combines a slice of each piece, which the others collect.
  bool is_sliced(const Call& call) const;
  void fill(const Call& call, collectives::Range range, std::uint64_t piece) const;
  void consume_piece(const Call& call, collectives::Range range, std::uint64_t piece) const;
  void combine_piece(const Call& call, collectives::Range range, std::uint64_t piece) const;
  void collect_piece(const Call& call, collectives::Range range, std::uint64_t piece) const;
  void begin_round(const Call& call);
  void end_first_part(const Call& call);
  void end_second_part(const Call& call);
  void await_all(std::uint64_t step, const Call& call) const;
  void await_pipes(Counter Pipe::*counter, std::uint64_t pieces, const Call& call) const;
  [[noreturn]] void time_out(int rank, const Call& call) const;
  std::string not_entered(std::uint64_t collectives) const;
  void publish_header(const Call& call) const;
  void check_headers(const Call& call) const;
  bool all_reachable() const;
  void await_untouched() const noexcept;

  // Data movement, in data_paths.cpp.
  void work_on_buffers(const Call& call) const;
  void stage(const Call& call, collectives::Range range, std::byte* to) const;
  void consume(const Call& call, collectives::Range range, const Source& source) const;
  void combine(const Call& call, collectives::Range range, const Source& source, std::size_t part,
               std::span<void* const> destinations) const;
  Source inline_source(const Call& call) const;
  Source tiny_source(const Call& call) const;
  Source direct_source(const Call& call) const;
  Source piece_source(const Call& call, collectives::Range range, std::uint64_t piece) const;
  bool is_reachable(const Call& call) const;
  Slot& slot(int rank) const { return region_.slot(rank, round_); }

  std::shared_ptr<Memory> memory_;
  const Region& region_;
  int rank_;
  int ranks_;
  Reach reach_;
  Sync sync_;
  Messages messages_;
  std::uint64_t collectives_ = 0;    ///< number of collectives begun
  std::optional<CallHeader> whole_;  ///< last collective started by begin()
  std::uint64_t round_ = 0;          ///< number of rounds begun in all collectives
  std::uint64_t pieces_ = 0;         ///< pieces passed through each pipe so far
};

}  // namespace ddprun::shared_memory
