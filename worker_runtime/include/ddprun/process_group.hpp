// The ranks that do collectives together. Every rank must call the same collectives in the same
// order with the same element counts and types; a rank that does otherwise is detected and named
// (Errc::usage) where the backend can see it. Collectives are asynchronous: they return a Work at
// once and are carried out in call order by the group's communication thread, or by a thread that
// waits for them. One thread at a time may call a group and wait for its own calls, Work handles
// may be used by any thread. Two threads at once are Error{Errc::usage} where they are seen, and
// the group is over: on other ranks they may have been in another order.
//
// A child that is forked from a process with groups must not use them: calls, and waits for works
// that have not ended, are Error{Errc::usage} there, abort() and destructors do nothing, and memory
// of allocate() stays shared with the parent's.
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

/// A collective under way. A value handle: copies mean the same collective. Dropping it does not
/// cancel anything.
class [[nodiscard("the buffers must live until wait() returns")]] Work {
 public:
  /// A Work that is already done.
  Work();

  /// Whether the collective has ended on this rank, well or not. Does not block.
  bool is_done() const;

  /// Blocks until the collective has ended on this rank: its buffers may then be read and reused.
  /// Throws what it failed with (PeerFailed, Errc::timeout when the group's collective_timeout or
  /// `deadline` passed, with the ranks that had not entered the call as far as that is known, ...).
  /// A deadline that leaves less than collective_timeout has a price: the calling thread must not
  /// get into a collective that may take longer, so it leaves all to the group's own thread, and a
  /// small collective then takes two switches between threads more.
  void wait(Deadline deadline) const;
  /// Without a deadline of its own.
  void wait() const;

  /// For buffers on a CUDA device: what `stream`, a cudaStream_t, is given from now on begins when
  /// this collective has ended. Blocks until the device has got the collective, not for its end;
  /// but where it cannot be waited for by a stream (buffers on the host, barriers, messages), as
  /// wait(). `stream` is needed during the call only. Throws what it has failed with by now; later
  /// failures are those of wait() and of the group's next call, and what `stream` then works with
  /// is undefined.
  ///
  /// A call on a stream that was being captured (set_stream()) became part of the CUDA graph: it
  /// runs at each launch, of which nothing is known here. is_done() is then true, wait() throws
  /// Error{Errc::usage}, and hold() joins the call's end into the capture that `stream` is part of,
  /// which has to be done before the capture ends.
  void hold(void* stream) const;

  /// Has the end of this work timed, which costs a small collective much of its time.
  void keep_end_time() const;
  /// When the work ended, if it is done and was to be timed. At the latest when that was asked.
  std::optional<Deadline::Clock::time_point> end_time() const;

  struct State;
  /// For the library: a handle of `state`.
  explicit Work(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

/// A backend and why it cannot be used here; an empty reason means that it can.
struct BackendInfo {
  std::string name;                ///< as GroupOptions::backend names it
  std::string unavailable_reason;  ///< empty if it can be used
};

/// The backends of this build and of the modules that are found. Loads modules.
std::vector<BackendInfo> available_backends();

class DeviceQueue;

/// A value handle: copies mean the same group; one that was moved from means none, and all its
/// functions throw Error{Errc::usage}. The group ends with its last copy; that blocks until
/// the works that were started have ended or failed. If that is because an exception leaves its
/// scope, the group is aborted, so that neither this rank nor another one waits for what will not
/// come.
class ProcessGroup {
 public:
  /// Meets the other workers of `env` through its store and blocks until all are there, at most
  /// join_timeout. Throws Error{Errc::usage} if a rank that came earlier has another backend; ranks
  /// of MPI's backends are not compared.
  static ProcessGroup create(const WorkerEnv& env, const GroupOptions& options = {});

  /// A group whose ranks are threads of this process: element r of the result is rank r's handle.
  /// No store is needed.
  static std::vector<ProcessGroup> create_in_process(int size, const GroupOptions& options = {});

  /// A group of some of this group's ranks, numbered anew in the order of `ranks`, which must be
  /// ascending; nothing on the others. Every rank of this group has to call it, and as often and in
  /// the same order as the others, since they agree on it by a collective of this group. If they
  /// want different groups, or one of them something that cannot be, all get Errc::usage, no group
  /// is made, and this one can be used as before. Blocks until the new group's ranks are there, at
  /// most join_timeout after they have agreed. It has the same backend; calls of different groups
  /// may be under way at once. Its name is this group's, a slash, and `name`, which may be given
  /// once, or the next number that is not taken if that is empty. What fails in it names ranks as
  /// all workers do.
  std::optional<ProcessGroup> new_group(const std::vector<int>& ranks,
                                        const std::string& name = {});
  /// With other options than this group's: all but `name` and `backend` count.
  std::optional<ProcessGroup> new_group(const std::vector<int>& ranks, const std::string& name,
                                        const GroupOptions& options);

  /// Rank of this process or thread in this group.
  int rank() const;
  /// Number of ranks.
  int size() const;
  /// Name of the backend, as in GroupOptions::backend; never "auto".
  const std::string& backend() const;
  /// Name of the group; see GroupOptions::name and new_group().
  const std::string& name() const;

  /// Who the ranks of this group are among all workers.
  std::vector<int> workers() const;

  /// Memory in which this group's collectives are fastest, zeroed and 64-byte aligned. Freed with
  /// the last copy of the returned pointer, which keeps the group's memory, not its threads, alive.
  /// Concerns this rank alone. Throws Error{Errc::usage} if arena_bytes are used up.
  std::shared_ptr<void> allocate(std::size_t bytes);
  /// The same on `device`, which is this rank's. To free it blocks until the device has done all
  /// that this process has given it. Throws Error{Errc::usage} for another device, Errc::cuda if
  /// there is not as much.
  std::shared_ptr<void> allocate(std::size_t bytes, Device device);

  /// For buffers on a CUDA device, of all calls from now on: each begins once `stream`, a
  /// cudaStream_t, has done what it has been given by then. Null, as at first: the device's default
  /// stream. What a finished call has written may be used by any stream, what one under way writes
  /// by those that Work::hold() holds back. Such buffers lie on the device with the index
  /// LOCAL_RANK, and input and output both there; the backend nccl takes them.
  ///
  /// While `stream` is being captured into a CUDA graph, collectives of such buffers become part of
  /// the graph, on all ranks or on none. All else is Error{Errc::usage}, thrown by the call before
  /// anything has happened: messages, barriers, buffers on the host, all_to_all in place, and
  /// whatever comes before the group's first collective on its device.
  void set_stream(void* stream);
  /// What set_stream() was told last.
  void* stream() const;

  /// Before: each rank's own values. After: on every rank the combination over all ranks, bit for
  /// bit the same everywhere, each element combined once and in rank order; on several nodes first
  /// the ranks of each node, then the nodes (host backend).
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum);

  /// After: every rank has root's values.
  Work broadcast(Buffer buffer, int root);

  // Where there are an input and an output, they are apart, or in place: the smaller one is this
  // rank's part of the larger one (all_to_all: both are the same).

  /// `output` has size() times as many elements as `input`; after: rank r's input at output[r * n].
  Work all_gather(Buffer input, Buffer output);

  /// `input` has size() times as many elements as `output`; after: rank r has the combination of
  /// all ranks' input[r * n .. (r + 1) * n).
  Work reduce_scatter(Buffer input, Buffer output, ReduceOp op = ReduceOp::sum);

  /// After: root's buffer holds the combination; other ranks' buffers are unchanged.
  Work reduce(Buffer buffer, int root, ReduceOp op = ReduceOp::sum);

  /// As all_gather, but only root's output is written; elsewhere `output` is ignored.
  Work gather(Buffer input, Buffer output, int root);

  /// Rank r gets root's input[r * n ..]; elsewhere than on root `input` is ignored.
  Work scatter(Buffer input, Buffer output, int root);

  /// Both have size() * n elements; after: rank s's input[r * n ..] is at rank r's output[s * n
  /// ..].
  Work all_to_all(Buffer input, Buffer output);

  /// Matching: the k-th send from a to b with tag t meets the k-th recv of b from a with tag t. A
  /// send ends when its message has been copied; it waits for the receiver only when 32 are under
  /// way to it. A recv holds up the calls after it: of two ranks that exchange, both send first.
  Work send(Buffer buffer, int to, int tag = 0);
  /// Receives into `buffer`, which has the size and type of the message; see send().
  Work recv(Buffer buffer, int from, int tag = 0);

  /// Ends on no rank before all ranks have called it.
  Work barrier();

  /// Ends the group for good: every pending and later collective of this rank fails with `reason`
  /// (Errc::closed), and so do the others', with PeerFailed, which names this rank where the
  /// backend can (host). Thread-safe.
  void abort(const std::string& reason);

  class Impl;
  /// For the library: a handle of `impl`.
  explicit ProcessGroup(std::shared_ptr<Impl> impl);

 private:
  friend DeviceQueue* device_queue_of(const ProcessGroup& group);

  Impl& impl() const;

  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
