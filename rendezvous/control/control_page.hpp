// A page of shared memory between an agent and the workers of one attempt: who is alive, who is
// about to exit with which status, and whether the attempt has been aborted. The agent creates it
// as a memfd (no name, so nothing can leak) and the workers inherit it; a new attempt gets a new
// page, so an old attempt's writes reach nobody.
//
// The agent trusts nothing that a worker can write: the memory cannot be resized, both sides keep
// its sizes for themselves, and what is read is checked (damage(), read_flights()). A worker maps
// all of it for reading and only its own part, and the change counter, for writing, so that a stray
// write of one worker cannot change another's part. One descriptor for each worker would not
// protect better: workers of one user can write each other's memory anyway.
//
// Why it exists: the kernel tells of a process' death (pidfd, SIGCHLD, closed sockets) only after
// it has torn down the memory, some 70 ms for each GiB. The robust futex list is processed before
// that, so a robust mutex held for life by the worker's main thread tells of the death within a
// millisecond.
//
// Everything here is lock-free and may be called from any thread unless it says otherwise.
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

/// What a worker has said of itself.
enum class WorkerPhase : std::uint32_t {
  silent = 0,   ///< it does not link the runtime, or has not got there yet
  alive = 1,    ///< holds its robust mutex
  exiting = 2,  ///< called exit() with `exit_status`; its memory may still be being torn down
};

/// Why an attempt is over for all its workers.
struct AbortRecord {
  int rank = -1;       ///< rank of the worker that failed; -1 if none is to blame
  std::string reason;  ///< one line, at most 200 bytes

  bool operator==(const AbortRecord&) const = default;
};

/// A mapping of the page. Move-only; unmapping does not change what the page says.
class ControlPage {
 public:
  /// The agent's side: a new page for `local_world_size` workers of a round, to which it hands
  /// `run_key`. The descriptor is close-on-exec.
  static ControlPage create(int local_world_size, int round = 0,
                            const std::optional<Digest>& run_key = {});

  /// The worker's side: maps an inherited descriptor and takes it over. Throws Error{Errc::usage}
  /// if it is not a control page of this version or has no slot for `local_rank`.
  static ControlPage attach(int fd, int local_rank);

  /// As attach(), through a copy of the descriptor: so it does not matter who else in this process
  /// uses the page and for how long.
  static ControlPage attach_again(int fd, int local_rank);

  ControlPage(ControlPage&& other) noexcept;
  ControlPage& operator=(ControlPage&& other) noexcept;
  ~ControlPage();

  int fd() const { return fd_; }
  int local_world_size() const { return local_world_size_; }
  int round() const { return round_; }

  /// Worker: known to all workers of the round, on all nodes, and to no others; nothing in a run
  /// without a secret.
  std::optional<Digest> run_key() const;

  /// Worker: from now on this thread's end is the worker's death. To be called once, by the main
  /// thread.
  void announce_alive(int local_rank);

  /// Worker: the process leaves by exit() with this status. Safe in an atexit or on_exit handler.
  void announce_exit(int local_rank, int exit_status) noexcept;

  WorkerPhase phase(int local_rank) const;

  /// The process that has announced itself, which may be a wrapper's child; 0 if none has.
  pid_t pid(int local_rank) const;

  /// The status given to announce_exit; meaningful in phase exiting.
  int exit_status(int local_rank) const;

  /// True once the worker was alive and its main thread has ended.
  bool is_dead(int local_rank) const;

  /// Describes a value in the worker's slot that announce_alive() and announce_exit() never write;
  /// nothing if the slot is valid.
  std::optional<std::string> damage(int local_rank) const;

  /// How many announcements and wake() calls there have been. Read it before looking at phases and
  /// deaths.
  std::uint32_t changes() const noexcept;

  /// Agent: blocks until changes() differs from `changes_seen`, a worker that is alive and not in
  /// `known_dead` (local_world_size() entries) dies, or the deadline passes. May also return for no
  /// reason.
  void wait_for_change(std::uint32_t changes_seen, const bool* known_dead, Deadline deadline) const;

  /// Ends a wait_for_change() of another thread or process.
  void wake() const noexcept;

  /// Ends the attempt for everybody. The first call wins; later ones change nothing. Wakes all
  /// futex waiters of abort_word().
  void abort(const AbortRecord& record) noexcept;

  bool is_aborted() const noexcept;

  /// 0 until the attempt is aborted. A shared futex: whoever sleeps on a word of his own sleeps on
  /// this one too.
  const std::atomic<std::uint32_t>& abort_word() const noexcept;

  std::optional<AbortRecord> abort_record() const;

  /// The worker's own part: kSlotBytes of this class, then what its flight recorder writes. All of
  /// the latter is zero to begin with.
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
