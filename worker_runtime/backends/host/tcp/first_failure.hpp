// What a group of several nodes has failed with. Within a node the first who fails writes it into
// shared memory; among nodes, into the store, so that who only sees a connection close can say why.
// Any thread may call.
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
  /// `key`: where in the store the first failure is written. `names` are those of the whole group.
  FirstFailure(const shared_memory::Sync& sync, Store store, std::string key, int own_rank,
               RankNames names);

  const RankNames& names() const { return names_; }

  /// Readable when check() may throw.
  int alarm_fd() const { return alarm_.fd(); }

  /// Throws if this node knows of a failure.
  void check() const { sync_.check_all(); }

  /// Fails the group because of one of its ranks, unless somebody has before, and throws what it
  /// failed with first.
  [[noreturn]] void fail(shared_memory::FailureKind kind, int rank, const std::string& text);

  /// Fails the group with what this rank could not do, unless it has failed before, and tells the
  /// other nodes what it has failed with.
  void fail_own(const std::string& text) noexcept;

  /// Fails the group if another node has told of a failure, and throws it. Blocks for the store, a
  /// second at most beside its other uses.
  void learn();

  /// Fails the group because the program wants it, and tells the other nodes.
  void abort(const std::string& reason) noexcept;

  /// For the store's other uses, one at a time.
  void use_store(const std::function<void(Store&)>& use);

 private:
  void fail_here(shared_memory::FailureKind kind, const std::string& text) noexcept;
  shared_memory::FailureRecord look_up() noexcept;
  shared_memory::FailureRecord settle(const shared_memory::FailureRecord& own) noexcept;

  const shared_memory::Sync& sync_;
  std::mutex mutex_;
  Store store_;
  std::string key_;
  int own_rank_;
  RankNames names_;
  Alarm alarm_;
};

/// A failure as the store keeps it, and back; what cannot be read is a failure of kind `none`.
std::string encode(const shared_memory::FailureRecord& failure);
shared_memory::FailureRecord decode_failure(const std::string& text);

}  // namespace ddprun::tcp
