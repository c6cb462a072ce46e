// The mapping of a group's shared memory: an anonymous one for ranks that are threads, a memfd for
// ranks that are processes. Neither has a name, so both end with the last process.
#pragma once

#include "worker_runtime/backends/host/shared_memory/layout.hpp"

namespace ddprun::shared_memory {

class Region {
 public:
  // The following functions throw Error{Errc::system} if the memory exceeds a limit of this process
  // (memory_limits.hpp) or of the machine.

  /// Creates an anonymous mapping, which only threads can share.
  static Region anonymous(int ranks, std::size_t arena_bytes);
  /// Creates a memfd, close-on-exec.
  static Region create(int ranks, std::size_t arena_bytes);
  /// Maps a memfd of create() in another process, and owns the descriptor. Throws
  /// Error{Errc::protocol} if it is not one or has another number of ranks.
  static Region attach(int fd, int ranks);

  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) = delete;
  ~Region();

  int fd() const { return fd_; }
  int ranks() const { return layout_.ranks; }
  std::byte* base() const { return base_; }
  std::size_t arena_bytes() const { return layout_.arena_bytes; }

  Head& head() const { return *at<Head>(0); }
  RankLine& line(int rank) const { return at<RankLine>(layout_.lines())[rank]; }
  /// Rounds alternate between the two slots of a rank.
  Slot& slot(int rank, std::uint64_t round) const {
    return at<Slot>(layout_.slots())[static_cast<std::size_t>(rank) * 2 + round % 2];
  }
  Pipe& pipe(int rank) const { return at<Pipe>(layout_.pipes())[rank]; }
  Mailbox& mailbox(int from, int to) const {
    return at<Mailbox>(layout_.mailboxes())[from * layout_.ranks + to];
  }
  std::byte* arena(int rank) const {
    return base_ + layout_.arenas() + static_cast<std::size_t>(rank) * layout_.arena_bytes;
  }

  /// Returns true if [data, data + bytes) is within a rank's arena.
  bool in_arenas(const void* data, std::size_t bytes) const;

 private:
  Region(int fd, const Layout& layout, std::byte* base) : fd_(fd), layout_(layout), base_(base) {}

  template <typename T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  void initialise();

  int fd_ = -1;
  Layout layout_;
  std::byte* base_ = nullptr;
};

}  // namespace ddprun::shared_memory
