#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"

#include "worker_runtime/backends/host/shared_memory/call.hpp"
#include <ddprun/error.hpp>

#include <sched.h>

#include <utility>
#include <vector>

namespace ddprun::shared_memory {

namespace {

constexpr std::uint64_t first_part(std::uint64_t round) {
  return 2 * round + 1;
}
constexpr std::uint64_t second_part(std::uint64_t round) {
  return 2 * round + 2;
}

constexpr std::uint64_t kPresent = first_part(0);  // the step of a rank that has joined

/// Marks that this rank accesses buffers of other ranks. The rank checks for a failure after
/// setting the mark; a failing rank checks the marks after setting the failure.
class Touching {
 public:
  explicit Touching(Word& word) : word_(word) { word_.store(1); }
  Touching(const Touching&) = delete;
  Touching& operator=(const Touching&) = delete;
  ~Touching() { end(); }
  void end() const { word_.store(0); }

 private:
  Word& word_;
};

}  // namespace

/// Outlives the backend while pieces of the arena are in use.
struct SharedMemoryBackend::Memory {
  Memory(std::shared_ptr<const Region> shared, int rank)
      : region(std::move(shared)), arena(region->arena(rank), region->arena_bytes()) {}

  std::shared_ptr<const Region> region;
  Arena arena;
};

SharedMemoryBackend::SharedMemoryBackend(std::shared_ptr<const Region> region, int rank,
                                         Reach reach, std::optional<control::ControlPage> page,
                                         RankNames names)
    : memory_(std::make_shared<Memory>(std::move(region), rank)),
      region_(*memory_->region),
      rank_(rank),
      ranks_(region_.ranks()),
      reach_(reach),
      sync_(region_, rank, std::move(page), std::move(names)),
      messages_(region_, memory_->arena, sync_, rank) {
  region_.line(rank).is_attached.store(1);
}

SharedMemoryBackend::~SharedMemoryBackend() = default;

void SharedMemoryBackend::enter(Deadline deadline) {
  sync_.hold_life();
  sync_.publish_cores();
  sync_.publish(region_.line(rank_).step(round_), kPresent);
  const auto step_of = [&](int rank) -> Counter& { return region_.line(rank).step(round_); };
  if (const auto late = sync_.wait_all(step_of, kPresent, deadline)) {
    const auto ranks_that = [&](const auto& is_missing) {
      std::vector<int> missing;
      for (int other = 0; other < ranks_; ++other) {
        if (is_missing(region_.line(other))) missing.push_back(other);
      }
      return missing;
    };
    // The rank that hands the memory over enters after all others have it.
    auto missing = ranks_that([](const RankLine& line) { return line.is_attached.load() == 0; });
    if (missing.empty()) {
      missing =
          ranks_that([&](RankLine& line) { return line.step(round_).value.load() < kPresent; });
    }
    if (missing.empty()) missing.push_back(*late);  // the rank has joined in the meantime
    sync_.fail_and_throw(FailureKind::timeout, sync_.names().number(missing.front()),
                         "process group: rank(s) " + sync_.names().list(missing) +
                             " did not join " + deadline.describe());
  }
  sync_.read_cores();
}

void SharedMemoryBackend::leave() noexcept {
  sync_.release_life();
}

std::shared_ptr<void> SharedMemoryBackend::allocate(std::size_t bytes) {
  std::shared_ptr<void> piece = try_allocate(bytes);
  if (piece == nullptr) {
    throw Error(Errc::usage, "process group: no room for " + std::to_string(bytes) + " bytes in " +
                                 sync_.names().name(rank_) + "'s " +
                                 std::to_string(memory_->arena.bytes()) +
                                 " bytes of group memory (GroupOptions::arena_bytes)");
  }
  return piece;
}

std::shared_ptr<void> SharedMemoryBackend::try_allocate(std::size_t bytes) {
  void* piece = memory_->arena.allocate_zeroed(bytes);
  if (piece == nullptr) return nullptr;
  return {piece, [memory = memory_](void* used) { memory->arena.free(used); }};
}

void SharedMemoryBackend::abort(const std::string& reason) noexcept {
  sync_.fail(FailureKind::aborted, sync_.names().number(rank_), reason);
}

void SharedMemoryBackend::run(const Operation& operation, Deadline deadline) {
  sync_.check();
  if (operation.collective == Collective::send) return messages_.send(operation, deadline);
  if (operation.collective == Collective::recv) return messages_.recv(operation, deadline);
  const Call call(operation, deadline, ranks_, collectives_++);
  region_.line(rank_).entered.store(collectives_, std::memory_order_relaxed);
  try {
    run_collective(call);
  } catch (...) {
    await_untouched();
    throw;
  }
}

void SharedMemoryBackend::begin(const Operation& whole, int group_ranks, Deadline deadline) {
  sync_.check();
  const Call call(whole, deadline, group_ranks, collectives_++);
  region_.line(rank_).entered.store(collectives_, std::memory_order_relaxed);
  whole_ = header_of(call);
  begin_round(call);
  slot(rank_).header = *whole_;
  end_first_part(call);
  check_headers(call);
}

void SharedMemoryBackend::run_part(const Operation& part, Deadline deadline) {
  run_collective(Call(part, deadline, ranks_, collectives_ - 1));
}

void SharedMemoryBackend::run_collective(const Call& call) {
  const collectives::Range everything{0, call.part_elements};
  begin_round(call);
  publish_header(call);
  if (call.is_tiny()) return run_tiny(call);
  if (call.is_inline()) stage(call, everything, slot(rank_).payload);
  end_first_part(call);
  check_headers(call);
  if (call.is_inline()) {
    consume(call, everything, inline_source(call));
  } else if (all_reachable()) {
    run_direct(call);
  } else {
    run_staged(call);
  }
}

/// The header is written in any case, but only read if the calls differ.
void SharedMemoryBackend::run_tiny(const Call& call) {
  const collectives::Range everything{0, call.part_elements};
  const std::uint64_t digest = digest_of(call);
  TinyCall& own = region_.line(rank_).step(round_).tiny;
  own.digest = digest;
  stage(call, everything, own.payload.data());
  end_first_part(call);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (region_.line(rank).step(round_).tiny.digest != digest) check_headers(call);
  }
  consume(call, everything, tiny_source(call));
}

void SharedMemoryBackend::run_direct(const Call& call) {
  const Touching touching(region_.line(rank_).touches);
  sync_.check();
  work_on_buffers(call);
  touching.end();
  end_second_part(call);
}

/// After a failure the caller of this rank may free its buffers, which other ranks may still
/// access. Threads are awaited, for the time of a copy. Processes access only arenas, which stay
/// mapped, and are not awaited, since they may be stopped.
void SharedMemoryBackend::await_untouched() const noexcept {
  if (reach_ != Reach::everything) return;
  // Until then, others may begin to access them.
  sync_.await_record();
  for (int rank = 0; rank < ranks_; ++rank) {
    while (region_.line(rank).touches.load() != 0) ::sched_yield();
  }
}

/// The slot was last used two rounds ago; ranks that have begun the round in between have finished
/// with it.
void SharedMemoryBackend::begin_round(const Call& call) {
  await_all(first_part(round_), call);
  ++round_;
}

void SharedMemoryBackend::end_first_part(const Call& call) {
  sync_.publish(region_.line(rank_).step(round_), first_part(round_));
  await_all(first_part(round_), call);
}

void SharedMemoryBackend::end_second_part(const Call& call) {
  sync_.publish(region_.line(rank_).step(round_), second_part(round_));
  await_all(second_part(round_), call);
}

void SharedMemoryBackend::await_all(std::uint64_t step, const Call& call) const {
  const auto step_of = [&](int rank) -> Counter& { return region_.line(rank).step(round_); };
  if (const auto late = sync_.wait_all(step_of, step, call.deadline)) time_out(*late, call);
}

void SharedMemoryBackend::time_out(int rank, const Call& call) const {
  const std::string missing = not_entered(call.sequence + 1);
  const std::string late =
      missing.empty() ? sync_.names().name(rank) + " entered it but did not continue" : missing;
  sync_.fail_and_throw(FailureKind::timeout, sync_.names().number(rank),
                       describe(whole_.value_or(header_of(call))) + ", " +
                           sync_.names().collective(call.sequence) + ": " + late + " " +
                           call.deadline.describe());
}

/// Returns the ranks that have begun fewer collectives.
std::string SharedMemoryBackend::not_entered(std::uint64_t collectives) const {
  std::vector<int> missing;
  for (int other = 0; other < ranks_; ++other) {
    if (region_.line(other).entered.load(std::memory_order_relaxed) < collectives)
      missing.push_back(other);
  }
  if (missing.empty()) return {};
  return "rank(s) " + sync_.names().list(missing) + " had not entered it";
}

std::string SharedMemoryBackend::stall_reason() const {
  return not_entered(region_.line(rank_).entered.load(std::memory_order_relaxed));
}

void SharedMemoryBackend::publish_header(const Call& call) const {
  CallHeader header = header_of(call);
  header.reachable = is_reachable(call) ? 1 : 0;
  if (call.contributes(rank_)) header.input = call.input() - region_.base();
  slot(rank_).header = header;
}

void SharedMemoryBackend::check_headers(const Call& call) const {
  const CallHeader& first = slot(0).header;
  for (int rank = 1; rank < ranks_; ++rank) {
    const CallHeader& other = slot(rank).header;
    if (is_same_call(first, other)) continue;
    sync_.fail_and_throw(FailureKind::mismatch, sync_.names().number(rank),
                         sync_.names().collective(call.sequence) + ": " + sync_.names().name(0) +
                             " called " + describe(first) + " but " + sync_.names().name(rank) +
                             " called " + describe(other));
  }
}

bool SharedMemoryBackend::all_reachable() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (slot(rank).header.reachable == 0) return false;
  }
  return true;
}

}  // namespace ddprun::shared_memory
