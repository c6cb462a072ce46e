// The staged path of a collective: data that other ranks cannot access is transferred in pieces
// through each rank's pipe. A rank fills its next piece before it awaits the results of the
// previous ones, so that most waits end immediately:
//
//   turn k:  fill k  |  consume k - 1                       or, for a sliced all_reduce,
//            fill k  |  combine this rank's slice of k - 1  |  collect the others' of k - 2
//
// An all_reduce of three or more ranks is sliced. Two ranks each combine all data: as many bytes
// pass between them as with slices, with half as many waits.
//
// Other ranks read pieces from a cache that they share with the writer, if there is one, so pieces
// are written by ordinary stores: non-temporal ones would write them to memory.
//
// A rank that fills piece k has waited in turn k - 1 until all ranks have filled k - 2. They did so
// after their turn k - 3, in which they finished with pieces up to k - 5. Five pieces in a pipe
// therefore ensure that no rank overwrites a piece that another rank reads.
#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"

#include <cstring>

namespace ddprun::shared_memory {

static_assert(kPieces >= 5);
static_assert(kPieceBytes / kRanksMax >= sizeof(double));  // an element of each rank's part

using collectives::Range;

bool SharedMemoryBackend::is_sliced(const Call& call) const {
  return call.operation.collective == Collective::all_reduce && ranks_ > 2;
}

void SharedMemoryBackend::run_staged(const Call& call) {
  const auto rounds =
      collectives::plan_rounds(call.part_elements, call.parts, call.element_bytes, kPieceBytes);
  const bool has_slices = is_sliced(call);
  Pipe& own = region_.pipe(rank_);
  const std::uint64_t pieces = rounds.count();
  const std::uint64_t turns = pieces + (has_slices ? 2 : 1);
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    if (turn < pieces) {
      fill(call, rounds.range(turn), pieces_ + turn);
      sync_.publish(own.filled, pieces_ + turn + 1);
    }
    if (turn >= 1 && turn <= pieces) {
      await_pipes(&Pipe::filled, pieces_ + turn, call);
      consume_piece(call, rounds.range(turn - 1), pieces_ + turn - 1);
      if (has_slices) sync_.publish(own.combined, pieces_ + turn);
    }
    if (has_slices && turn >= 2) {
      await_pipes(&Pipe::combined, pieces_ + turn - 1, call);
      collect_piece(call, rounds.range(turn - 2), pieces_ + turn - 2);
    }
  }
  pieces_ += pieces;
}

void SharedMemoryBackend::await_pipes(Counter Pipe::*counter, std::uint64_t pieces,
                                      const Call& call) const {
  const auto counter_of = [&](int rank) -> Counter& { return region_.pipe(rank).*counter; };
  if (const auto late = sync_.wait_all(counter_of, pieces, call.deadline)) time_out(*late, call);
}

/// The slice that this rank combines does not pass through its pipe.
void SharedMemoryBackend::fill(const Call& call, Range range, std::uint64_t piece) const {
  std::byte* const to = region_.pipe(rank_).piece(piece);
  if (!is_sliced(call)) return stage(call, range, to);
  const std::byte* const from = call.input() + range.first * call.element_bytes;
  const Range own = collectives::slice_of(range.count, call.element_bytes, ranks_, rank_);
  const std::size_t before = own.first * call.element_bytes;
  const std::size_t after = (own.first + own.count) * call.element_bytes;
  std::memcpy(to, from, before);
  std::memcpy(to + after, from + after, range.count * call.element_bytes - after);
}

void SharedMemoryBackend::consume_piece(const Call& call, Range range, std::uint64_t piece) const {
  if (is_sliced(call)) return combine_piece(call, range, piece);
  consume(call, range, piece_source(call, range, piece));
}

SharedMemoryBackend::Source SharedMemoryBackend::piece_source(const Call& call, Range range,
                                                              std::uint64_t piece) const {
  Source source(range.count * call.element_bytes);
  for (int rank = 0; rank < ranks_; ++rank)
    source.ranks[static_cast<std::size_t>(rank)] = region_.pipe(rank).piece(piece);
  source.use_input(rank_, call, range);
  return source;
}

void SharedMemoryBackend::combine_piece(const Call& call, Range range, std::uint64_t piece) const {
  const std::size_t offset = range.first * call.element_bytes;
  const Range slice = collectives::slice_of(range.count, call.element_bytes, ranks_, rank_);
  const std::size_t first = slice.first * call.element_bytes;
  const std::array<void*, 2> results = {call.output() + offset + first,
                                        region_.pipe(rank_).piece(piece) + first};
  combine(call, slice, piece_source(call, range, piece), 0, results);
}

void SharedMemoryBackend::collect_piece(const Call& call, Range range, std::uint64_t piece) const {
  std::byte* const to = call.output() + range.first * call.element_bytes;
  for (int i = 1; i < ranks_; ++i) {
    const int rank = (rank_ + i) % ranks_;
    const Range slice = collectives::slice_of(range.count, call.element_bytes, ranks_, rank);
    const std::size_t first = slice.first * call.element_bytes;
    if (slice.count > 0)
      std::memcpy(to + first, region_.pipe(rank).piece(piece) + first,
                  slice.count * call.element_bytes);
  }
}

}  // namespace ddprun::shared_memory
