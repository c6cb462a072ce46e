// Collectives of ranks that share memory, be they processes or threads. The same code runs both;
// they differ in how the memory came about and in how much of each other's memory they can reach.
//
// Every collective begins with a round in which all ranks publish what they call; so a rank that
// calls something else is found before data moves. Then one of four ways, chosen by all ranks
// alike:
//   tiny     up to 40 bytes: the data is in the cache line that announces the call;
//   inline   up to 2 KiB: it comes with the call; everybody computes his result from all slots;
//   direct   all inputs can be reached by all: everybody works on the others' buffers, no copies;
//   staged   else: piece by piece through pipes.
// In each way an element is combined in rank order by the same kernel, so the bits are the same.
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

/// Which buffers of a rank the others may touch.
enum class Reach {
  arenas,      ///< those in the arenas: the ranks are processes
  everything,  ///< any: the ranks are threads of one process
};

class SharedMemoryBackend final : public WatchfulBackend {
 public:
  /// `names` are those of the region's ranks.
  SharedMemoryBackend(std::shared_ptr<const Region> region, int rank, Reach reach,
                      std::optional<control::ControlPage> page, RankNames names = {});
  ~SharedMemoryBackend() override;

  void enter(Deadline deadline) override;
  void leave() noexcept override;
  void run(const Operation& operation, Deadline deadline) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  std::string hold_up() const override;
  void abort(const std::string& reason) noexcept override;
  void check() const override { sync_.check_all(); }

  // For a group that is more than those who share this memory, in place of run():

  /// All ranks here have begun the collective `whole` of a group of `group_ranks`, and begun the
  /// same. Root and counts are those of the whole group.
  void begin(const Operation& whole, int group_ranks, Deadline deadline);
  /// A step of it among the ranks here, which are counted from 0.
  void run_part(const Operation& part, Deadline deadline);
  const Sync& sync() const { return sync_; }
  /// As allocate(); nothing if there is no room.
  std::shared_ptr<void> try_allocate(std::size_t bytes);
  /// How many collectives have begun.
  std::uint64_t collectives() const { return collectives_; }

 private:
  struct Memory;

  /// Where to find every rank's contribution to a round. Entries beyond the group's ranks are
  /// uninitialised: zeroing kRanksMax of them would cost a small collective more than its data.
  struct Source {
    explicit Source(std::size_t bytes_per_part) : part_bytes(bytes_per_part) {}

    std::array<const std::byte*, kRanksMax> ranks;
    std::size_t part_bytes;

    const std::byte* at(int rank, std::size_t part) const {
      return ranks[static_cast<std::size_t>(rank)] + part * part_bytes;
    }
  };

  // The order of events, in shared_memory_backend.cpp and staged.cpp.
  void run_collective(const Call& call);
  void run_tiny(const Call& call);
  void run_direct(const Call& call);
  void run_staged(const Call& call);
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

  // What is done to the data, in data_paths.cpp.
  void work_on_buffers(const Call& call) const;
  void stage(const Call& call, collectives::Range range, std::byte* to) const;
  void consume(const Call& call, collectives::Range range, const Source& source) const;
  void combine(const Call& call, collectives::Range range, const Source& source, std::size_t part,
               std::span<void* const> destinations) const;
  Source inline_source(const Call& call) const;
  Source tiny_source(const Call& call) const;
  Source direct_source(const Call& call) const;
  bool is_reachable(const Call& call) const;
  Slot& slot(int rank) const { return region_.slot(rank, round_); }

  std::shared_ptr<Memory> memory_;
  const Region& region_;
  int rank_;
  int ranks_;
  Reach reach_;
  Sync sync_;
  Messages messages_;
  std::uint64_t collectives_ = 0;    ///< begun so far
  std::optional<CallHeader> whole_;  ///< what begin() began last
  std::uint64_t round_ = 0;          ///< rounds begun so far, over all collectives
  std::uint64_t pieces_ = 0;         ///< that have passed through each pipe before this collective
};

}  // namespace ddprun::shared_memory
