// Implementation of ProcessGroup: this rank's backend and its work queue.
#pragma once

#include "rendezvous/base/own_process.hpp"
#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/group/checks.hpp"
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/process_group.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class ProcessGroup::Impl {
 public:
  /// `backend_name`: name in the table of backends, or "in_process".
  Impl(GroupPlace place, std::string backend_name, std::unique_ptr<Backend> backend,
       const GroupOptions& options, CallLog log,
       std::shared_ptr<InProcessRegions> regions = nullptr)
      : place_(std::move(place)),
        backend_name_(std::move(backend_name)),
        options_(options),
        regions_(std::move(regions)),
        queue_(make_for_this_process<WorkQueue>(
            std::move(backend), static_cast<std::size_t>(size()), options, std::move(log))) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// Aborts the group if an exception leaves its scope: other ranks may wait for calls that this
  /// one will not make.
  ~Impl() {
    if (!queue_->is_of_this_process()) return;
    if (has_entered_ && std::uncaught_exceptions() > exceptions_)
      abort("an exception has left the scope of its group");
    queue_->stop();
  }

  void start(Deadline deadline) { queue_->start(deadline); }
  void wait_entered() {
    queue_->wait_entered();
    has_entered_ = true;
  }

  int rank() const { return place_.env.rank; }
  int size() const { return place_.env.world_size; }
  const GroupPlace& place() const { return place_; }
  const std::string& backend() const { return backend_name_; }
  const GroupOptions& options() const { return options_; }
  /// Null unless the ranks are threads of this process.
  const std::shared_ptr<InProcessRegions>& regions() const { return regions_; }

  /// Returns the full name of a new group; if `wanted` is empty, with the next unused number.
  std::string subgroup_name(const std::string& wanted) const {
    const std::string prefix = options_.name + "/";
    if (!wanted.empty()) return prefix + wanted;
    std::size_t number = unnamed_subgroups_;
    while (has_had(prefix + std::to_string(number))) ++number;
    return prefix + std::to_string(number);
  }
  bool has_had(const std::string& subgroup) const { return subgroup_names_.count(subgroup) != 0; }
  /// Records a group on which all ranks have agreed.
  void note_subgroup(const std::string& name, bool is_unnamed) {
    subgroup_names_.insert(name);
    if (is_unnamed) ++unnamed_subgroups_;
  }

  Work call(const Operation& operation) {
    queue_->require_own_process();
    const OneCaller caller(is_called_);
    if (!caller.is_alone()) queue_->refuse_second_thread(operation);
    check_operation(operation, rank(), size(),
                    queue_->device() == nullptr ? nullptr : &queue_->device()->device());
    return queue_->push(operation, stream_);
  }
  void set_stream(void* stream) { stream_ = stream; }
  void* stream() const { return stream_; }
  DeviceQueue* device() const { return queue_->device(); }
  std::shared_ptr<void> allocate(std::size_t bytes, const Device* device = nullptr) {
    return queue_->allocate(bytes, device);
  }
  void abort(const std::string& reason) { queue_->abort(reason, place_.names().name(rank())); }

 private:
  /// Sets `flag` during a call; is_alone() returns true if it was not set before.
  class OneCaller {
   public:
    explicit OneCaller(std::atomic<bool>& flag)
        : flag_(flag), is_alone_(!flag.exchange(true, std::memory_order_acquire)) {}
    OneCaller(const OneCaller&) = delete;
    OneCaller& operator=(const OneCaller&) = delete;
    ~OneCaller() {
      if (is_alone_) flag_.store(false, std::memory_order_release);
    }
    bool is_alone() const { return is_alone_; }

   private:
    std::atomic<bool>& flag_;
    bool is_alone_;
  };

  const GroupPlace place_;
  const std::string backend_name_;
  const GroupOptions options_;
  const std::shared_ptr<InProcessRegions> regions_;
  std::set<std::string> subgroup_names_;
  std::size_t unnamed_subgroups_ = 0;
  std::atomic<void*> stream_ = nullptr;
  const int exceptions_ = std::uncaught_exceptions();
  bool has_entered_ = false;
  std::atomic<bool> is_called_ = false;
  std::shared_ptr<WorkQueue> queue_;
};

/// Creates a group of `workers`, ascending ranks among all workers of `env` that include this one,
/// on `nodes`. Only these workers call it. Blocks until they are connected.
ProcessGroup create_among(const WorkerEnv& env, const std::vector<int>& workers,
                          const std::vector<int>& nodes, const GroupOptions& options);

/// Creates a group of ranks that share `regions`; does not start it.
std::shared_ptr<ProcessGroup::Impl> connect_in_process(
    const GroupPlace& place, const std::shared_ptr<InProcessRegions>& regions,
    const GroupOptions& options);

/// Creates a group of threads over the given backends, one per rank. Blocks until all ranks are
/// connected.
std::vector<ProcessGroup> create_in_process_groups(std::vector<std::unique_ptr<Backend>> backends,
                                                   const GroupOptions& options);

}  // namespace ddprun
