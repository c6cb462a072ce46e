#include "rendezvous/base/own_process.hpp"

#include <ddprun/error.hpp>

#include <atomic>
#include <new>
#include <pthread.h>

namespace ddprun {

namespace {

std::atomic<std::uint32_t> fork_count = 0;

// posix_spawn and vfork do not call it, and need not: their children only execute a program.
[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });

struct Kept {
  void* object;
  Kept* next;
};

std::atomic<Kept*> all_kept = nullptr;

}  // namespace

std::uint32_t OwnProcess::forks() noexcept {
  return fork_count.load(std::memory_order_relaxed);
}

void OwnProcess::refuse(const std::string& thing, const char* remedy) {
  throw Error(Errc::usage, thing + " belongs to the parent of this process; " + remedy);
}

void keep_forever(void* object) noexcept {
  auto* const kept = new (std::nothrow) Kept{object, all_kept.load(std::memory_order_relaxed)};
  if (kept == nullptr) return;  // a leak checker then reports the object
  while (!all_kept.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
  }
}

}  // namespace ddprun
