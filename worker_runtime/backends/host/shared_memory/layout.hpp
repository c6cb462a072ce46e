// Layout of the memory shared by the ranks of a group. It is zero initially; rank 0 initialises the
// head before it shares the memory.
//
//   Head | RankLine per rank | two slots per rank | a pipe per rank | a mailbox per pair of ranks |
//   an arena per rank
//
// A counter has one writer and only increases. Nothing is reset between collectives, so a late
// reader cannot confuse an old value with a new one.
#pragma once

#include "rendezvous/base/local_workers.hpp"
#include "worker_runtime/backends/backend.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

namespace ddprun::shared_memory {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kArenaAlignment = 2 << 20;  // huge pages
/// Maximum number of workers of a node.
inline constexpr int kRanksMax = kLocalWorkersMax;
/// Size of a piece in a pipe, large compared with the cost of a wait.
inline constexpr std::size_t kPieceBytes = 32 << 10;
/// Number of pieces in a pipe, so that a piece is free when its rank may write it: see staged.cpp.
inline constexpr std::size_t kPieces = 8;
/// Maximum size for which every rank reduces all data, with one synchronisation instead of two.
inline constexpr std::size_t kInlineBytes = 2 << 10;
/// Maximum size of data that fits into the cache line that announces it.
inline constexpr std::size_t kTinyBytes = 40;
/// Maximum number of undelivered messages between two ranks, beyond which send blocks.
inline constexpr std::uint64_t kMailboxMessages = 32;
inline constexpr std::size_t kFailureTextBytes = 400;
/// Number of cores of a cpu_set_t.
inline constexpr std::size_t kCoreWords = 16;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// A call whose data fits into the cache line of the counter that announces it.
struct TinyCall {
  std::uint64_t digest;  ///< digest of the call
  std::array<std::byte, kTinyBytes> payload;
};

/// An increasing number on which other ranks wait. Its lower half is the futex.
struct alignas(kCacheLine) Counter {
  std::atomic<std::uint64_t> value;
  Word sleepers;  ///< number of threads that sleep in the kernel
  Word cpu;       ///< CPU on which the number was written last
  TinyCall tiny;  ///< call of the writer, complete before the number is written

  const void* futex() const { return &value; }
};

static_assert(sizeof(Counter) == kCacheLine);

enum class FailureKind : std::uint32_t { none, died, left, aborted, timeout, mismatch };

/// The first failure of the group.
struct Failure {
  Word claim;         ///< rank + 1 of the writer, set before the record is written
  Word word;          ///< futex: a FailureKind once the record is complete
  std::int32_t rank;  ///< rank among all workers
  std::array<char, kFailureTextBytes + 1> text;
};

struct Head {
  std::uint64_t magic;
  std::int32_t ranks;
  std::uint64_t arena_bytes;
  alignas(kCacheLine) Failure failure;
};

struct RankLine {
  /// Used alternately, one per round. 2 * round + 1: the rank's slot of the round is filled; 2 *
  /// round + 2: the second part of the round is, too.
  std::array<Counter, 2> steps;
  alignas(kCacheLine) std::atomic<std::uint64_t> entered;  ///< collectives begun
  Word is_attached;                                        ///< the rank has mapped the memory
  Word left;                                               ///< the rank has left in an orderly way
  Word touches;                                 ///< the rank accesses buffers of other ranks
  std::array<std::uint64_t, kCoreWords> cores;  ///< affinity of the rank, as bits
  alignas(kCacheLine) pthread_mutex_t life;     ///< robust, held by the communication thread

  Counter& step(std::uint64_t round) { return steps[round % 2]; }

  /// Returns the futex word of the mutex, which is glibc's first field.
  Word& life_word() { return *reinterpret_cast<Word*>(&life); }
};

/// Published form of a rank's call.
struct CallHeader {
  std::uint64_t sequence;
  std::uint64_t elements;  ///< elements of one rank's part
  std::int64_t input;      ///< offset of the input in the shared memory
  std::int32_t peer;
  Collective collective;
  DataType type;
  ReduceOp op;
  std::uint8_t reachable;  ///< the other ranks may read the input (and write it, to reduce)
};

struct alignas(kCacheLine) Slot {
  CallHeader header;
  alignas(kCacheLine) std::byte payload[kInlineBytes];
};

/// Transfers a rank's data in pieces if other ranks cannot access its buffers. Both counters count
/// the pieces of all collectives.
struct Pipe {
  Counter filled;    ///< pieces with the rank's data
  Counter combined;  ///< pieces with the results of its slice
  alignas(kPage) std::byte pieces[kPieces][kPieceBytes];

  std::byte* piece(std::uint64_t number) { return pieces[number % kPieces]; }
};

/// A message in the sender's arena.
struct Envelope {
  std::uint64_t offset;  ///< offset of its Parcel in the shared memory
  std::uint64_t elements;
  std::int32_t tag;
  DataType type;
};

struct Mailbox {
  Counter sent;      ///< written by the sender
  Counter taken;     ///< envelopes read; written by the receiver
  Counter released;  ///< parcels no longer needed; written by the receiver
  std::array<Envelope, kMailboxMessages> envelopes;
};

/// Header of a message.
struct alignas(kCacheLine) Parcel {
  Word released;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + sizeof(Parcel); }
};

/// Offsets of the areas, by the number of ranks.
struct Layout {
  int ranks = 0;
  std::size_t arena_bytes = 0;  ///< size of one rank's arena, a multiple of kArenaAlignment

  std::size_t lines() const { return round_up(sizeof(Head), kPage); }
  std::size_t slots() const { return round_up(lines() + count() * sizeof(RankLine), kPage); }
  std::size_t pipes() const { return round_up(slots() + 2 * count() * sizeof(Slot), kPage); }
  std::size_t mailboxes() const { return round_up(pipes() + count() * sizeof(Pipe), kPage); }
  std::size_t arenas() const {
    return round_up(mailboxes() + count() * count() * sizeof(Mailbox), kArenaAlignment);
  }
  std::size_t bytes() const { return arenas() + count() * arena_bytes; }

  static std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(ranks); }
};

}  // namespace ddprun::shared_memory
