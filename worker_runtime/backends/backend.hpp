// Interface of a backend for process groups: runs operations, allocates memory, aborts. One object
// is one rank of one group.
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
  new_group,  ///< an all_gather by which ranks agree on a subgroup
};

/// Last enumerator.
inline constexpr Collective kLastCollective = Collective::new_group;

const char* to_string(Collective collective) noexcept;

/// A call of a collective by this rank, with checked arguments. In-place operations have the same
/// buffer as input and output.
struct Operation {
  Collective collective = Collective::barrier;
  Buffer input = {};
  Buffer output = {};
  ReduceOp op = ReduceOp::sum;
  int peer = 0;  ///< root, or the other rank of a send or recv
  int tag = 0;
  std::uint64_t sequence = 0;  ///< index in the group's call order
  std::uint64_t number =
      0;  ///< index among the group's collectives; for a message, index of the next one
  /// For device buffers: DeviceQueue::mark() of the caller's stream at the call.
  void* mark = nullptr;
};

// Properties of collectives and calls.

/// Returns true for send and recv, which only two ranks call.
bool is_message(Collective collective);
/// Returns true if `peer` is the root.
bool has_root(Collective collective);
/// Returns true if `op` is used.
bool combines(Collective collective);
/// Returns true if the caller passes an element count and type.
bool has_elements(Collective collective);
/// Returns the type of the elements; unspecified for a barrier.
DataType data_type(const Operation& operation);
/// Returns the element count that is equal on all ranks: of one rank's part if ranks have different
/// parts, otherwise of the buffer.
std::size_t part_elements(const Operation& operation, std::size_t ranks);
/// Returns the device of the buffers; the CPU if they are empty.
Device device_of(const Operation& operation);
/// Returns text such as "all_reduce(100 x float32, sum)" or "send(1 x int32, rank 2, tag 7)".
std::string describe(const Operation& operation, std::size_t ranks);
/// Like describe(), with index and group: "all_reduce(100 x float32, sum), collective 5 of group
/// "default"".
std::string describe_in(const std::string& group, const Operation& operation, std::size_t ranks);

class DeviceQueue;

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// The group's communication thread calls enter() first and leave() last; for the other ranks,
  /// the end of the thread is the end of this rank. enter() connects to the other ranks and blocks.
  virtual void enter(Deadline deadline) = 0;
  virtual void leave() noexcept = 0;

  /// Runs `operation` and blocks until it ends. One call at a time, from any thread. After an
  /// exception, only leave() may be called.
  virtual void run(const Operation& operation, Deadline deadline) = 0;

  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;

  /// Returns why the current collective has not ended, such as "rank(s) 2 had not entered it";
  /// empty if unknown. Called by any thread during run().
  virtual std::string stall_reason() const = 0;

  /// Makes run() fail on all ranks. May be called by any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Returns the queue that runs collectives on device buffers; null if they are not supported.
  virtual DeviceQueue* device_queue() { return nullptr; }
};

/// A backend that detects failures outside of run(), for backends that do not.
class WatchfulBackend : public Backend {
 public:
  /// Throws like run() if a rank has died or the group has failed. Thread-safe after enter().
  virtual void check() const = 0;
};

}  // namespace ddprun
