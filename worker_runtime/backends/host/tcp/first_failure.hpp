// The first failure of a group of several nodes. It is recorded in shared memory within a node and
// in the store between nodes, so that a rank that only sees a closed connection can report the
// cause. Thread-safe.
#pragma once

#include "worker_runtime/backends/host/shared_memory/sync.hpp"
#include "worker_runtime/backends/host/tcp/alarm.hpp"
#include <ddprun/store.hpp>

#include <functional>
#include <mutex>
#include <string>

namespace ddprun::tcp {

class FirstFailure {
 public:
  /// `key`: the store's key of the first failure. `names`: names of all ranks of the group.
  FirstFailure(const shared_memory::Sync& sync, Store store, std::string key, int own_rank,
               RankNames names);

  const RankNames& names() const { return names_; }

  /// Descriptor that is readable when check() may throw.
  int alarm_fd() const { return alarm_.fd(); }

  /// Throws if this node knows of a failure.
  void check() const { sync_.check_all(); }

  /// Fails the group because of `rank`, unless it has failed, and throws its first failure.
  [[noreturn]] void fail(shared_memory::FailureKind kind, int rank, const std::string& text);

  /// Fails the group because of this rank, unless it has failed, and publishes its first failure to
  /// the other nodes.
  void fail_own(const std::string& text) noexcept;

  /// Throws the failure that another node has published, if any, and fails the group.
  /// Blocks for at most a second in addition to other uses of the store.
  void check_store();

  /// Fails the group on the program's request, and publishes that to the other nodes.
  void abort(const std::string& reason) noexcept;

  /// Calls `use` with exclusive access to the store.
  void use_store(const std::function<void(Store&)>& use);

 private:
  void fail_here(shared_memory::FailureKind kind, const std::string& text) noexcept;
  shared_memory::FailureRecord read_record() noexcept;
  shared_memory::FailureRecord publish(const shared_memory::FailureRecord& own) noexcept;

  const shared_memory::Sync& sync_;
  std::mutex mutex_;
  Store store_;
  std::string key_;
  int own_rank_;
  RankNames names_;
  Alarm alarm_;
};

/// Encodes a failure for the store. The parser returns kind `none` for malformed text.
std::string encode(const shared_memory::FailureRecord& failure);
shared_memory::FailureRecord decode_failure(const std::string& text);

}  // namespace ddprun::tcp
