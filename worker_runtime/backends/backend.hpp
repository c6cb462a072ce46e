// What a process group asks of a backend: carry one operation out, give memory, stop. One object is
// one rank's part in one group.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ddprun {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  all_to_all,
  send,
  recv,
  barrier,
  new_group,  ///< an all_gather, by which ranks agree on a group
};

/// The number of the last one.
inline constexpr Collective kLastCollective = Collective::new_group;

const char* to_string(Collective collective) noexcept;

/// One call of a collective by this rank, its arguments already checked. In-place operations have
/// the same buffer as input and output.
struct Operation {
  Collective collective = Collective::barrier;
  Buffer input = {};
  Buffer output = {};
  ReduceOp op = ReduceOp::sum;
  int peer = 0;  ///< root, or the other side of a send or recv
  int tag = 0;
  std::uint64_t sequence = 0;  ///< position in the group's call order
  std::uint64_t number = 0;    ///< among its collectives; a message has that of the next one
  /// Buffers on a device: DeviceQueue::mark() of the caller's stream at the call.
  void* mark = nullptr;
};

// What can be said of a collective or of a call of it, without a backend.

/// send or recv: two ranks make it, the others need not.
bool is_message(Collective collective);
/// `peer` is the root.
bool has_root(Collective collective);
/// `op` counts.
bool combines(Collective collective);
/// What callers know has arguments: how many elements of which type are moved.
bool has_elements(Collective collective);
/// Of what is moved. A barrier has none; there it is anything.
DataType data_type(const Operation& operation);
/// Elements of what is the same on all ranks: one rank's part where each gets another one, else
/// all.
std::size_t part_elements(const Operation& operation, std::size_t ranks);
/// Where the buffers lie, which is in one place; the processor, if there is nothing in them.
Device device_of(const Operation& operation);
/// "all_reduce(100 x float32, sum)", "send(1 x int32, rank 2, tag 7)".
std::string describe(const Operation& operation, std::size_t ranks);
/// The same and which it is: "all_reduce(100 x float32, sum), collective 5 of group "default"".
std::string describe_in(const std::string& group, const Operation& operation, std::size_t ranks);

class DeviceQueue;

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Called by the group's communication thread before anything else, and at its end: the thread
  /// whose end other ranks take for this rank's. enter() meets the other ranks.
  virtual void enter(Deadline deadline) = 0;
  virtual void leave() noexcept = 0;

  /// Carries `operation` out. One call at a time, from any thread. After an exception the backend
  /// is only good for leave().
  virtual void run(const Operation& operation, Deadline deadline) = 0;

  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;

  /// What is known of why the collective that run() is in has not ended: "rank(s) 2 had not entered
  /// it". Empty if nothing is. Any thread, during run().
  virtual std::string hold_up() const = 0;

  /// Makes a run() under way and those of the other ranks fail. Any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Takes collectives of buffers on a device in place of run(). Null if there may be none.
  virtual DeviceQueue* device_queue() { return nullptr; }
};

/// A backend that hears of a failure while it carries nothing out, for others that hear of none.
class WatchfulBackend : public Backend {
 public:
  /// Throws what a run() would throw now because a rank has died or the group has ended. Any
  /// thread, after enter().
  virtual void check() const = 0;
};

}  // namespace ddprun
