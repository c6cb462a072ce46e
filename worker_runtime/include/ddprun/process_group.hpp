// A group of ranks that call collectives together. Every rank must call the same collectives in the
// same order with the same element counts and types. If the backend detects a difference, it throws
// Error{Errc::usage} that names the rank. Collectives are asynchronous: they return a Work
// immediately and run in call order, on the group's communication thread or on a thread that waits
// for them. One thread at a time may call a group and wait for its own calls; any thread may use
// Work handles. Concurrent calls throw Error{Errc::usage} if detected, and fail the group, because
// their order may differ on other ranks.
//
// A forked child must not use its parent's groups. Calls, and waits for works that have not ended,
// throw Error{Errc::usage}; abort() and destructors do nothing; memory of allocate() stays shared
// with the parent.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>
#include <ddprun/group_options.hpp>
#include <ddprun/peer_failed.hpp>
#include <ddprun/worker_env.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Handle of a collective. Copies refer to the same collective. Destroying it does not cancel the
/// collective.
class [[nodiscard("the buffers must live until wait() returns")]] Work {
 public:
  /// Creates a completed Work.
  Work();

  /// Returns true if the collective has ended on this rank, successfully or not. Does not block.
  bool is_done() const;

  /// Blocks until the collective has ended on this rank; its buffers may then be read and reused.
  /// Throws its failure: PeerFailed, Errc::timeout if collective_timeout or `deadline` passes (with
  /// the ranks that have not entered the call, as far as known), ... With a deadline earlier than
  /// collective_timeout, the calling thread does not run collectives itself. This adds two thread
  /// switches to a small collective.
  void wait(Deadline deadline) const;
  /// Like wait(deadline), without a deadline.
  void wait() const;

  /// For device buffers: makes later work on `stream`, a cudaStream_t, wait for this collective.
  /// Blocks until the collective is launched, but not until its end. For host buffers, barriers and
  /// messages, it is like wait(). `stream` must live only during the call. Throws failures that
  /// have occurred; wait() and the group's next call throw later ones, and the buffers are then
  /// undefined.
  ///
  /// A call on a captured stream (set_stream()) becomes part of the CUDA graph and runs at each
  /// launch. is_done() is then true, wait() throws Error{Errc::usage}, and hold() makes `stream`
  /// depend on the call within the graph. The capture must not end before hold().
  void hold(void* stream) const;

  /// Enables end_time() for this work. Optional because it slows down small collectives.
  void record_end_time() const;
  /// Returns the end time, or the time of the call of record_end_time() if that was later. Returns
  /// nothing if the work has not completed or record_end_time() was not called.
  std::optional<Deadline::Clock::time_point> end_time() const;

  struct State;
  /// For use by the library only.
  explicit Work(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

/// A backend and its availability.
struct BackendInfo {
  std::string name;                ///< value for GroupOptions::backend
  std::string unavailable_reason;  ///< reason; empty if the backend can be used
};

/// Returns the backends of this build and of the modules found. Loads the modules.
std::vector<BackendInfo> available_backends();

class DeviceQueue;

/// Handle of a group. Copies refer to the same group. Functions of a moved-from handle throw
/// Error{Errc::usage}. Destroying the last copy ends the group and blocks until all started works
/// have ended. If it is destroyed by an exception, the group is aborted, so that other ranks do not
/// wait for calls that never come.
class ProcessGroup {
 public:
  /// Connects to the other workers of `env` through its store. Blocks until all are connected, for
  /// at most join_timeout. Throws Error{Errc::usage} at once for ranks, sizes or options out of
  /// range, and if a lower rank uses another backend; MPI backends are not compared.
  static ProcessGroup create(const WorkerEnv& env, const GroupOptions& options = {});

  /// Creates a group whose ranks are threads of this process, without a store. Returns the handles
  /// in rank order. Throws Error{Errc::usage} for invalid arguments.
  static std::vector<ProcessGroup> create_in_process(int size, const GroupOptions& options = {});

  /// Creates a group of some of this group's ranks, which are renumbered in the order of `ranks`,
  /// an ascending list. Returns nothing on other ranks. A collective: every rank of this group must
  /// call it, in the same order of calls. If arguments differ between ranks or are invalid, all
  /// ranks throw Error{Errc::usage}, and this group remains usable. Blocks until the new group's
  /// ranks are connected, at most join_timeout after they have agreed. The new group has the same
  /// backend; calls of different groups may run concurrently. Its name is this group's, a slash,
  /// and `name`, which must be new, or the next unused number if `name` is empty; it has the limits
  /// of GroupOptions::name. Errors name ranks among all workers.
  std::optional<ProcessGroup> new_group(const std::vector<int>& ranks,
                                        const std::string& name = {});
  /// Like new_group() above with other options; ignores `name` and `backend` of `options`.
  std::optional<ProcessGroup> new_group(const std::vector<int>& ranks, const std::string& name,
                                        const GroupOptions& options);

  /// Returns the rank of this process or thread in this group.
  int rank() const;
  /// Returns the number of ranks.
  int size() const;
  /// Returns the name of the backend, as in GroupOptions::backend; never "auto".
  const std::string& backend() const;
  /// Returns the name of the group; see GroupOptions::name and new_group().
  const std::string& name() const;

  /// Returns this group's ranks as ranks among all workers.
  std::vector<int> workers() const;

  /// Allocates zeroed, 64-byte aligned memory on which this group's collectives are fastest. The
  /// last copy of the pointer frees it and may outlive the group. Not a collective. Throws
  /// Error{Errc::usage} if arena_bytes are used up.
  std::shared_ptr<void> allocate(std::size_t bytes);
  /// Allocates memory on `device`, which must be this rank's device. Freeing it blocks until the
  /// device has completed all work of this process. Throws Error{Errc::usage} for another device
  /// and Errc::cuda if the memory is insufficient.
  std::shared_ptr<void> allocate(std::size_t bytes, Device device);

  /// Sets the stream, a cudaStream_t, of later calls with device buffers. Each call starts after
  /// the current work on `stream`. Null, the default, selects the device's default stream. Results
  /// of a completed call may be used on any stream, results of a running call only on streams after
  /// Work::hold(). Device buffers require the backend nccl and must be on the device with index
  /// LOCAL_RANK.
  ///
  /// While `stream` is captured into a CUDA graph, collectives on device buffers become part of the
  /// graph, on all ranks or on none. Other calls throw Error{Errc::usage} without side effects:
  /// messages, barriers, host buffers, all_to_all in place, and any call before the group's first
  /// collective on its device.
  void set_stream(void* stream);
  /// Returns the stream of set_stream().
  void* stream() const;

  /// Reduces over all ranks; all ranks get bitwise equal results. The host backend combines
  /// elements in rank order; with several nodes, first within each node and then over the nodes.
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum);

  /// Copies root's values to all ranks.
  Work broadcast(Buffer buffer, int root);

  // Input and output must be disjoint or in place. In place, the smaller buffer is this rank's part
  // of the larger one (all_to_all: both buffers are the same).

  /// Gathers all inputs on every rank. Rank r's input of n elements starts at output[r * n];
  /// `output` has size() * n elements.
  Work all_gather(Buffer input, Buffer output);

  /// Reduces over all ranks. Rank r gets elements [r * n, (r + 1) * n) of the result; `output` has
  /// n elements and `input` has size() * n.
  Work reduce_scatter(Buffer input, Buffer output, ReduceOp op = ReduceOp::sum);

  /// Reduces over all ranks into root's buffer. Buffers of other ranks do not change.
  Work reduce(Buffer buffer, int root, ReduceOp op = ReduceOp::sum);

  /// Like all_gather on root only; other ranks ignore `output`.
  Work gather(Buffer input, Buffer output, int root);

  /// Copies root's input[r * n, (r + 1) * n) to rank r; other ranks ignore `input`.
  Work scatter(Buffer input, Buffer output, int root);

  /// Copies part r of rank s's input to part s of rank r's output. Both buffers have size() parts
  /// of n elements.
  Work all_to_all(Buffer input, Buffer output);

  /// Sends to rank `to`. The k-th send from rank a to b with tag t matches the k-th recv on b from
  /// a with tag t. A send completes when the message is copied, unless 32 messages to the rank are
  /// pending. A recv delays later calls, so two ranks that exchange messages must both send first,
  /// at most 32 messages each. A rank that leaves waits up to 5 s for receivers on other nodes.
  Work send(Buffer buffer, int to, int tag = 0);
  /// Receives into `buffer`, which must have the size and type of the message; see send().
  Work recv(Buffer buffer, int from, int tag = 0);

  /// Completes after all ranks have called it.
  Work barrier();

  /// Fails the group: pending and later collectives fail with `reason`. They throw Errc::closed on
  /// this rank and PeerFailed on the others; with the backend host, PeerFailed names this rank. Any
  /// thread may call it.
  void abort(const std::string& reason);

  class Impl;
  /// For use by the library only.
  explicit ProcessGroup(std::shared_ptr<Impl> impl);

 private:
  friend DeviceQueue* device_queue_of(const ProcessGroup& group);

  Impl& impl() const;

  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
