// A page of shared memory between an agent and the workers of one attempt. It records which workers
// are alive, which are exiting with which status, and whether the attempt was aborted. The agent
// creates it as a memfd that workers inherit. Each attempt gets a new page, so late writes of old
// workers have no effect.
//
// The agent validates all that a worker can write: the memory cannot be resized, both sides store
// its sizes privately, and values read are checked (damage(), read_flights()). A worker maps the
// page read-only, except its own part and the change counter, so that a stray write of one worker
// cannot change another's part. A descriptor per worker would not protect better: workers of one
// user can write to each other's memory anyway.
//
// The kernel reports the death of a process (pidfd, SIGCHLD, closed sockets) only after it has
// freed the memory, which takes some 70 ms per GiB. It processes the robust futex list earlier, so
// a robust mutex that the worker's main thread holds for life signals the death within a
// millisecond.
//
// All functions are lock-free and thread-safe, unless stated otherwise.
#pragma once

#include "rendezvous/base/hmac.hpp"
#include <ddprun/deadline.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::control {

/// State announced by a worker.
enum class WorkerPhase : std::uint32_t {
  silent = 0,   ///< does not link the runtime, or has not announced itself yet
  alive = 1,    ///< holds its robust mutex
  exiting = 2,  ///< called exit() with `exit_status`; its memory may not be freed yet
};

/// Why an attempt was aborted.
struct AbortRecord {
  int rank = -1;       ///< rank of the failed worker; -1: none
  std::string reason;  ///< one line, at most 200 bytes

  bool operator==(const AbortRecord&) const = default;
};

/// A mapping of the page. Move-only. Unmapping does not change the page's content.
class ControlPage {
 public:
  /// Agent: creates a page for `local_world_size` workers of a round and stores `run_key` in it.
  /// The descriptor is close-on-exec.
  static ControlPage create(int local_world_size, int round = 0,
                            const std::optional<Digest>& run_key = {});

  /// Worker: maps and takes ownership of an inherited descriptor. Throws Error{Errc::usage} if it
  /// is not a control page of this version or has no slot for `local_rank`.
  static ControlPage attach(int fd, int local_rank);

  /// Like attach(), but duplicates the descriptor, so other users of the page in this process are
  /// not affected.
  static ControlPage attach_again(int fd, int local_rank);

  ControlPage(ControlPage&& other) noexcept;
  ControlPage& operator=(ControlPage&& other) noexcept;
  ~ControlPage();

  int fd() const { return fd_; }
  int local_world_size() const { return local_world_size_; }
  int round() const { return round_; }

  /// Worker: returns the key shared by all workers of the round on all nodes; nullopt in a run
  /// without a secret.
  std::optional<Digest> run_key() const;

  /// Worker: announces this worker. The end of the calling thread then counts as its death. Must be
  /// called once, by the main thread.
  void announce_alive(int local_rank);

  /// Worker: announces that the process calls exit() with this status. Safe in exit handlers.
  void announce_exit(int local_rank, int exit_status) noexcept;

  WorkerPhase phase(int local_rank) const;

  /// Returns the process that announced itself, possibly a child of a wrapper; 0: none.
  pid_t pid(int local_rank) const;

  /// Returns the status passed to announce_exit(); only valid in phase exiting.
  int exit_status(int local_rank) const;

  /// Returns true once the worker has been alive and its main thread has ended.
  bool is_dead(int local_rank) const;

  /// Returns a description of an invalid value in the worker's slot; nullopt if the slot is valid.
  std::optional<std::string> damage(int local_rank) const;

  /// Returns the number of announcements and wake() calls. Read it before phases and deaths.
  std::uint32_t changes() const noexcept;

  /// Agent: blocks until changes() differs from `changes_seen`, a worker that is alive and not in
  /// `known_dead` (local_world_size() entries) dies, or the deadline passes. May return spuriously.
  void wait_for_change(std::uint32_t changes_seen, const bool* known_dead, Deadline deadline) const;

  /// Ends wait_for_change() in another thread or process.
  void wake() const noexcept;

  /// Aborts the attempt for all workers. Only the first call has an effect. Wakes all futex waiters
  /// of abort_word().
  void abort(const AbortRecord& record) noexcept;

  bool is_aborted() const noexcept;

  /// Returns a shared futex that is 0 until the attempt is aborted. Waiters on other futexes also
  /// wait on it.
  const std::atomic<std::uint32_t>& abort_word() const noexcept;

  std::optional<AbortRecord> abort_record() const;

  /// Returns the worker's part of the page: kSlotBytes of this class, then its flight recorder,
  /// which is initially zero.
  void* worker_area(int local_rank) const;

  static constexpr std::size_t kSlotBytes = 128;

 private:
  struct Layout;
  ControlPage(int fd, Layout* layout, int local_world_size, int round)
      : fd_(fd), layout_(layout), local_world_size_(local_world_size), round_(round) {}

  int fd_ = -1;
  Layout* layout_ = nullptr;
  int local_world_size_ = 0;
  int round_ = 0;
};

}  // namespace ddprun::control
