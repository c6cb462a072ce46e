#include "tests/support/cuda_emulation.hpp"

#include "tests/support/guarded_stack.hpp"

#include <ucontext.h>

#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

// Sanitizers, if linked in, must be notified of stack switches.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom,
                                                          std::size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom,
                                                           std::size_t* bytes);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}

namespace ddprun::test {

namespace {

constexpr unsigned kThreadsMax = 1024;  // per block, on every device
constexpr unsigned kLanes = 32;

/// A stack and a saved position on it.
class Fiber {
 public:
  /// The calling context.
  Fiber() : tsan_(__tsan_get_current_fiber == nullptr ? nullptr : __tsan_get_current_fiber()) {}

  /// `entry` never returns.
  explicit Fiber(void (*entry)())
      : owned_(std::in_place), bottom_(owned_->bottom()), bytes_(GuardedStack::kBytes) {
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = owned_->bottom();
    context_.uc_stack.ss_size = GuardedStack::kBytes;
    context_.uc_link = nullptr;
    ::makecontext(&context_, entry, 0);
    // With a size, the address sanitizer clears its shadow of the whole stack at each switch.
    // switch_to() reports the switches to it, and swapcontext does not read the size.
    context_.uc_stack.ss_size = 0;
    if (__tsan_create_fiber != nullptr) tsan_ = __tsan_create_fiber(0);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    if (owned_ && tsan_ != nullptr) __tsan_destroy_fiber(tsan_);
  }

  /// Switches to `other`; returns when another context switches back.
  void switch_to(Fiber& other) {
    other.came_from_ = this;
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&fake_stack_, other.bottom_, other.bytes_);
    if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(other.tsan_, 0);
    ::swapcontext(&context_, &other.context_);
    arrive();
  }

  /// Runs first on a new stack, and after each return to an old one.
  void arrive() {
    if (__sanitizer_finish_switch_fiber == nullptr) return;
    __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->bottom_, &came_from_->bytes_);
  }

 private:
  ucontext_t context_{};
  std::optional<GuardedStack> owned_;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* tsan_ = nullptr;
  Fiber* came_from_ = nullptr;
};

std::string to_text(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string to_text(SourceLocation where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

bool is_same(SourceLocation one, SourceLocation other) {
  return one.line == other.line &&
         (one.file == other.file || std::string_view(one.file) == other.file);
}

struct Thread {
  enum class State { running, at_barrier, in_warp_call, ended };
  State state = State::running;
  uint3 index{};
  Fiber* fiber = nullptr;
  WarpCall call;  ///< position at which it waits; of a barrier without a mask
  std::uint64_t given = 0;
  LaneValues gathered{};
};

/// Idle fibers and all fibers; they are reused because creating one costs more than most kernels of
/// a test. Owned by the kernel that is running.
struct Fibers {
  std::deque<Fiber> all;
  std::vector<Fiber*> idle;
};

/// A running grid. A fiber runs threads one after another until one has to wait; it then stays with
/// that thread, and another fiber runs the next threads.
class Grid {
 public:
  Grid(const KernelShape& shape, const std::function<void()>& thread, Fibers& fibers)
      : thread_(thread), backwards_(shape.backwards), fibers_(fibers) {
    gridDim = shape.grid;
    blockDim = shape.block;
  }

  void run() {
    const std::size_t count = std::size_t{gridDim.x} * gridDim.y * gridDim.z;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t block = backwards_ ? count - 1 - i : i;
      run_block({static_cast<unsigned>(block % gridDim.x),
                 static_cast<unsigned>(block / gridDim.x % gridDim.y),
                 static_cast<unsigned>(block / gridDim.x / gridDim.y)});
    }
  }

  void wait_for_block(SourceLocation where);
  LaneValues gather(const WarpCall& call, std::uint64_t value);
  unsigned current() const { return current_; }

  /// The fiber to start further threads.
  Fiber& starting() { return *starting_; }

  /// Starts threads on this fiber, and switches away from it.
  void serve(Fiber& own);

 private:
  void run_block(uint3 index);
  Fiber& choose_next();
  void wait(Thread::State state, const WarpCall& call);
  bool complete_warp_call(unsigned first, const WarpCall& call);
  void set_current(unsigned thread);
  std::string describe_waiting() const;

  const std::function<void()>& thread_;
  const bool backwards_;
  Fiber main_;
  Fibers& fibers_;
  Fiber* starting_ = nullptr;
  std::vector<Thread> threads_;
  std::deque<unsigned> ready_;  ///< threads whose wait is over
  unsigned next_ = 0;           ///< threads to be started
  unsigned ended_ = 0;
  unsigned at_barrier_ = 0;
  unsigned current_ = 0;
  std::exception_ptr failure_;
};

/// Runs one kernel at a time. State of its grid, and objects that the next kernel reuses.
std::mutex turn;
Grid* grid = nullptr;
Fibers fibers;

void serve_grids() {
  Fiber& own = grid->starting();
  own.arrive();
  while (true) grid->serve(own);
}

void Grid::set_current(unsigned thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
}

void Grid::run_block(uint3 index) {
  blockIdx = index;
  threads_.assign(std::size_t{blockDim.x} * blockDim.y * blockDim.z, {});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  next_ = ended_ = at_barrier_ = 0;
  for (Fiber* next = &choose_next(); next != &main_; next = &choose_next()) main_.switch_to(*next);
  if (failure_) std::rethrow_exception(failure_);
  if (ended_ < threads_.size()) throw KernelError(describe_waiting());
}

/// The context to switch to if the calling fiber cannot continue: a fiber with threads to start,
/// one whose thread no longer waits or, without either, the caller of run().
Fiber& Grid::choose_next() {
  if (failure_ || (next_ == threads_.size() && ready_.empty())) return main_;
  if (next_ == threads_.size()) {
    set_current(backwards_ ? ready_.back() : ready_.front());
    backwards_ ? ready_.pop_back() : ready_.pop_front();
    return *threads_[current_].fiber;
  }
  if (fibers_.idle.empty()) fibers_.idle.push_back(&fibers_.all.emplace_back(serve_grids));
  starting_ = fibers_.idle.back();
  fibers_.idle.pop_back();
  return *starting_;
}

void Grid::serve(Fiber& own) {
  while (!failure_ && next_ < threads_.size()) {
    const auto started = next_++;
    const unsigned thread =
        backwards_ ? static_cast<unsigned>(threads_.size()) - 1 - started : started;
    set_current(thread);
    threads_[thread].fiber = &own;
    try {
      thread_();
    } catch (...) {
      failure_ = std::current_exception();
    }
    threads_[thread].state = Thread::State::ended;
    ++ended_;
  }
  Fiber& next = choose_next();
  fibers_.idle.push_back(&own);
  own.switch_to(next);
}

void Grid::wait(Thread::State state, const WarpCall& call) {
  Thread& thread = threads_[current_];
  thread.state = state;
  thread.call = call;
  thread.fiber->switch_to(choose_next());
}

void Grid::wait_for_block(SourceLocation where) {
  const WarpCall call{.mask = 0, .name = "__syncthreads", .where = where};
  for (const Thread& thread : threads_) {
    if (thread.state == Thread::State::at_barrier && !is_same(thread.call.where, where)) {
      throw KernelError("thread " + to_text(threadIdx) + " is in __syncthreads at " +
                        to_text(where) + " and thread " + to_text(thread.index) + " in that at " +
                        to_text(thread.call.where));
    }
    if (thread.state == Thread::State::at_barrier) break;
  }
  if (++at_barrier_ < threads_.size()) return wait(Thread::State::at_barrier, call);
  at_barrier_ = 0;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != Thread::State::at_barrier) continue;
    threads_[i].state = Thread::State::running;
    ready_.push_back(i);
  }
}

/// If all threads of `mask` in the warp that begins with `first` have arrived, exchanges their
/// values and resumes those that wait.
bool Grid::complete_warp_call(unsigned first, const WarpCall& call) {
  LaneValues values{};
  const auto takes_part = [&](unsigned lane) { return (call.mask >> lane & 1U) != 0; };
  // The last lane usually arrives last: if it is missing, the search ends at once.
  for (unsigned lane = kLanes; lane-- > 0;) {
    if (!takes_part(lane)) continue;
    if (first + lane >= threads_.size()) {
      throw KernelError(std::string(call.name) + " at " + to_text(call.where) + " with lane " +
                        std::to_string(lane) + ", which the block does not have");
    }
    const Thread& thread = threads_[first + lane];
    if (thread.state != Thread::State::in_warp_call || thread.call.mask != call.mask ||
        !is_same(thread.call.where, call.where)) {
      return false;
    }
    values[lane] = thread.given;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!takes_part(lane)) continue;
    threads_[first + lane].gathered = values;
    threads_[first + lane].state = Thread::State::running;
    if (first + lane != current_) ready_.push_back(first + lane);
  }
  return true;
}

LaneValues Grid::gather(const WarpCall& call, std::uint64_t value) {
  const unsigned lane = current_ % kLanes;
  Thread& thread = threads_[current_];
  if ((call.mask >> lane & 1U) == 0) {
    throw KernelError(std::string(call.name) + " at " + to_text(call.where) + " by lane " +
                      std::to_string(lane) + ", which its mask does not name");
  }
  thread.given = value;
  thread.call = call;
  thread.state = Thread::State::in_warp_call;
  if (!complete_warp_call(current_ - lane, call)) wait(Thread::State::in_warp_call, call);
  return thread.gathered;
}

std::string Grid::describe_waiting() const {
  std::size_t waiting = 0;
  const Thread* first = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.state == Thread::State::ended) continue;
    ++waiting;
    if (first == nullptr) first = &thread;
  }
  return "block " + to_text(blockIdx) + ": " + std::to_string(waiting) + " of " +
         std::to_string(threads_.size()) + " threads wait for ever, as thread " +
         to_text(first->index) + " in " + first->call.name + " at " + to_text(first->call.where) +
         "; " + std::to_string(ended_) + " have ended";
}

void check(const KernelShape& shape) {
  const dim3& block = shape.block;
  const dim3& blocks = shape.grid;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kThreadsMax || block.z > 64)
    throw KernelError("a block of " + std::to_string(threads) + " threads, must be 1 to 1024");
  const std::size_t count = std::size_t{blocks.x} * blocks.y * blocks.z;
  if (count == 0 || blocks.x > 0x7fff'ffffU || blocks.y > 65535 || blocks.z > 65535)
    throw KernelError("a grid of " + std::to_string(count) + " blocks that no device takes");
}

}  // namespace

LaneValues gather_lanes(const WarpCall& call, std::uint64_t value) {
  return grid->gather(call, value);
}

int own_lane() {
  return static_cast<int>(grid->current() % kLanes);
}

void wait_for_block(SourceLocation where) {
  grid->wait_for_block(where);
}

void run_grid(const KernelShape& shape, const std::function<void()>& thread) {
  check(shape);
  const std::lock_guard lock(turn);
  Grid own(shape, thread, fibers);
  grid = &own;
  try {
    own.run();
  } catch (...) {
    // Threads that wait forever keep their fibers.
    fibers = {};
    throw;
  }
}

void free_fibers() {
  const std::lock_guard lock(turn);
  fibers = {};
}

}  // namespace ddprun::test
