// What lies where in the memory that the ranks of a group share. All of it is zero to begin with;
// rank 0 initialises the head before anyone else sees it.
//
//   Head | RankLine per rank | two slots per rank | a pipe per rank | a mailbox per pair of ranks |
//   an arena per rank
//
// A counter has one writer and only ever grows, so nothing is reset between collectives and a
// reader that is late cannot mistake an old value for a new one.
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
/// As many as an agent starts on a node.
inline constexpr int kRanksMax = kLocalWorkersMax;
/// What passes through a pipe at once: much more than a wait costs.
inline constexpr std::size_t kPieceBytes = 32 << 10;
/// So many that a rank which may write to one knows without asking that all are done with what it
/// held before: see staged.cpp.
inline constexpr std::size_t kPieces = 8;
/// Up to here every rank combines everything itself: one synchronisation instead of two.
inline constexpr std::size_t kInlineBytes = 2 << 10;
/// Up to here the data travels in the cache line that says that it is there.
inline constexpr std::size_t kTinyBytes = 40;
/// Messages from one rank to another that may be under way before send blocks.
inline constexpr std::uint64_t kMailboxMessages = 32;
inline constexpr std::size_t kFailureTextBytes = 400;
/// As many cores as a cpu_set_t has room for.
inline constexpr std::size_t kCoreWords = 16;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// A call that is so small that it fits beside the number by which it is announced.
struct TinyCall {
  std::uint64_t digest;  ///< of the call
  std::array<std::byte, kTinyBytes> payload;
};

/// A growing number that others wait for. Its lower half is the futex.
struct alignas(kCacheLine) Counter {
  std::atomic<std::uint64_t> value;
  Word sleepers;  ///< who waits in the kernel
  TinyCall tiny;  ///< of the number's writer, complete before the number is written

  const void* futex() const { return &value; }
};

enum class FailureKind : std::uint32_t { none, died, left, aborted, timeout, mismatch };

/// The first failure in the group; the others follow from it.
struct Failure {
  Word claim;         ///< its author's rank + 1, from before the record is written
  Word word;          ///< futex: a FailureKind once the record is complete
  std::int32_t rank;  ///< among all workers
  std::array<char, kFailureTextBytes + 1> text;
};

struct Head {
  std::uint64_t magic;
  std::int32_t ranks;
  std::uint64_t arena_bytes;
  alignas(kCacheLine) Failure failure;
};

struct RankLine {
  /// In turn, a round each. 2 * round + 1: its slot of the round is filled; + 2: the round's second
  /// part too.
  std::array<Counter, 2> steps;
  alignas(kCacheLine) std::atomic<std::uint64_t> entered;  ///< collectives begun
  Word is_attached;                                        ///< it has mapped the memory
  Word left;                                               ///< it has ended its part on purpose
  Word touches;                                 ///< it is at work in the other ranks' buffers
  std::array<std::uint64_t, kCoreWords> cores;  ///< on which it may run, a bit each
  alignas(kCacheLine) pthread_mutex_t life;     ///< robust, held by the communication thread

  Counter& step(std::uint64_t round) { return steps[round % 2]; }

  /// glibc keeps the futex word of a mutex first.
  Word& life_word() { return *reinterpret_cast<Word*>(&life); }
};

/// A rank's call as the others see it.
struct CallHeader {
  std::uint64_t sequence;
  std::uint64_t elements;  ///< of one rank's part
  std::int64_t input;      ///< its distance from the start of the shared memory
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

/// Through which a rank's data pass, piece after piece, where others cannot reach them. Both
/// numbers count pieces over all collectives.
struct Pipe {
  Counter filled;    ///< the rank's data are in them
  Counter combined;  ///< and the results of its slice, where the collective has slices
  alignas(kPage) std::byte pieces[kPieces][kPieceBytes];

  std::byte* piece(std::uint64_t number) { return pieces[number % kPieces]; }
};

/// A message that waits in the sender's arena.
struct Envelope {
  std::uint64_t offset;  ///< of its Parcel in the shared memory
  std::uint64_t elements;
  std::int32_t tag;
  DataType type;
};

struct Mailbox {
  Counter sent;      ///< written by the sender
  Counter taken;     ///< by the receiver: envelopes read
  Counter released;  ///< by the receiver: parcels no longer needed
  std::array<Envelope, kMailboxMessages> envelopes;
};

/// In front of a message's bytes.
struct alignas(kCacheLine) Parcel {
  Word released;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + sizeof(Parcel); }
};

/// Offsets of the areas for a number of ranks.
struct Layout {
  int ranks = 0;
  std::size_t arena_bytes = 0;  ///< of one rank, a multiple of kArenaAlignment

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
