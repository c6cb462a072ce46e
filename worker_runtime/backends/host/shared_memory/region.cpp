#include "worker_runtime/backends/host/shared_memory/region.hpp"

#include "worker_runtime/backends/host/shared_memory/memory_limits.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <cstdint>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::shared_memory {

namespace {

constexpr std::uint64_t kMagic = 0x6464'7072'6772'0003;  // "ddprgr" and the layout's version

/// Maps `bytes` of a memfd, or anonymous memory if `fd` is -1.
std::byte* map(int fd, std::size_t bytes) {
  require_room(bytes, {.address_space = memory_limits().address_space});
  const int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) {
    throw_system_error("group memory: mmap of " + std::to_string(bytes) +
                           " bytes (less are asked for by GroupOptions::arena_bytes)",
                       errno);
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

Region Region::anonymous(int ranks, std::size_t arena_bytes) {
  const Layout layout{ranks, arena_bytes};
  Region region(-1, layout, map(-1, layout.bytes()));
  region.initialise();
  return region;
}

Region Region::create(int ranks, std::size_t arena_bytes) {
  const Layout layout{ranks, arena_bytes};
  require_room(layout.bytes(), {.file = memory_limits().file});
  const int fd = ::memfd_create("ddprun-group", MFD_CLOEXEC);
  if (fd < 0) throw_system_error("group memory: memfd_create", errno);
  Region region(fd, layout, nullptr);  // from here on the descriptor has an owner
  if (::ftruncate(fd, static_cast<off_t>(layout.bytes())) != 0) {
    throw_system_error("group memory: ftruncate to " + std::to_string(layout.bytes()) + " bytes",
                       errno);
  }
  region.base_ = map(fd, layout.bytes());
  region.initialise();
  return region;
}

Region Region::attach(int fd, int ranks) {
  Region region(fd, Layout{}, nullptr);
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_system_error("group memory: fstat", errno);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  Head head{};
  const bool has_head =
      ::pread(fd, &head, offsetof(Head, failure), 0) == ssize_t{offsetof(Head, failure)};
  const Layout layout{head.ranks, head.arena_bytes};
  if (!has_head || head.magic != kMagic || head.ranks != ranks || layout.bytes() != bytes) {
    throw Error(Errc::protocol, "group memory: what rank 0 sent is not the memory of a group of " +
                                    std::to_string(ranks) + " ranks (another version of ddprun?)");
  }
  region.layout_ = layout;
  region.base_ = map(fd, bytes);
  return region;
}

Region::Region(Region&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      layout_(other.layout_),
      base_(std::exchange(other.base_, nullptr)) {}

Region::~Region() {
  if (base_ != nullptr) ::munmap(base_, layout_.bytes());
  if (fd_ >= 0) ::close(fd_);
}

void Region::initialise() {
  // Advice only: shorter page tables make mapping and exit faster where shared huge pages exist.
  ::madvise(base_ + layout_.arenas(), layout_.bytes() - layout_.arenas(), MADV_HUGEPAGE);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (int rank = 0; rank < layout_.ranks; ++rank)
    pthread_mutex_init(&line(rank).life, &attributes);
  pthread_mutexattr_destroy(&attributes);
  head().ranks = layout_.ranks;
  head().arena_bytes = layout_.arena_bytes;
  head().magic = kMagic;
}

bool Region::in_arenas(const void* data, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  const auto distance =
      reinterpret_cast<std::uintptr_t>(first) - reinterpret_cast<std::uintptr_t>(arena(0));
  const std::size_t all = layout_.bytes() - layout_.arenas();
  return distance < all && bytes <= all - distance;
}

}  // namespace ddprun::shared_memory
