// What a ProcessGroup handle points to: this rank's backend and the queue in front of it.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/group/checks.hpp"
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/process_group.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class ProcessGroup::Impl {
 public:
  Impl(int rank, int size, std::string backend_name, std::unique_ptr<Backend> backend,
       const GroupOptions& options, CallLog log)
      : rank_(rank),
        size_(size),
        backend_name_(std::move(backend_name)),
        queue_(std::make_shared<WorkQueue>(std::move(backend), options, std::move(log))) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { queue_->stop(); }

  void start(Deadline deadline) { queue_->start(deadline); }
  void wait_entered() { queue_->wait_entered(); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& backend() const { return backend_name_; }

  Work call(const Operation& operation) {
    check_operation(operation, rank_, size_);
    return queue_->push(operation);
  }
  std::shared_ptr<void> allocate(std::size_t bytes) { return queue_->allocate(bytes); }
  void abort(const std::string& reason) { queue_->abort(reason); }

 private:
  int rank_;
  int size_;
  std::string backend_name_;
  std::shared_ptr<WorkQueue> queue_;
};

/// A group of threads over the given backends, one per rank; blocks until all have met.
std::vector<ProcessGroup> create_in_process_groups(std::vector<std::unique_ptr<Backend>> backends,
                                                   const GroupOptions& options);

}  // namespace ddprun
