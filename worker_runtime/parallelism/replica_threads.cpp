#include "rendezvous/base/own_process.hpp"
#include <ddprun/data_parallel.hpp>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace ddprun {

namespace {

// Maximum number of workers of a node.
constexpr int kReplicasMax = 1024;

int checked(int count) {
  if (count >= 1 && count <= kReplicasMax) return count;
  throw Error(Errc::usage, "DataParallel: " + std::to_string(count) + " replicas (1 to " +
                               std::to_string(kReplicasMax) + " are possible)");
}

/// Returns true if the failure is PeerFailed, a consequence of another replica's failure.
bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const PeerFailed&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Rows Replica::rows(std::size_t batch_rows) const {
  const auto parts = static_cast<std::size_t>(count);
  const auto number = static_cast<std::size_t>(index);
  const std::size_t each = batch_rows / parts;
  const std::size_t more = batch_rows % parts;
  return {.first = number * each + std::min(number, more), .count = each + (number < more ? 1 : 0)};
}

class ReplicaThreads::Impl {
 public:
  explicit Impl(int count) : failures_(static_cast<std::size_t>(count)) {
    auto groups = ProcessGroup::create_in_process(count);
    for (int index = 0; index < count; ++index) {
      replicas_.push_back(
          {.index = index, .count = count, .group = groups[static_cast<std::size_t>(index)]});
    }
    groups.clear();
    try {
      for (Replica& replica : replicas_) threads_.emplace_back([&] { serve(replica); });
    } catch (const std::system_error& error) {
      end();
      throw Error(Errc::system, "DataParallel: a thread for replica " +
                                    std::to_string(threads_.size()) + ": " + error.what());
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { end(); }

  int count() const { return static_cast<int>(replicas_.size()); }

  void apply(const std::function<void(Replica&)>& call) {
    process_.require("DataParallel: it", "make one in the forked child");
    std::unique_lock lock(mutex_);
    if (has_failed_)
      throw Error(Errc::closed, "DataParallel: an earlier call has failed, so replicas differ");
    call_ = &call;
    ++round_;
    left_ = count();
    begun_.notify_all();
    ended_.wait(lock, [&] { return left_ == 0; });
    call_ = nullptr;
    throw_failure();
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    begun_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void serve(Replica& replica) {
    std::uint64_t done = 0;
    while (true) {
      const std::function<void(Replica&)>* call = nullptr;
      {
        std::unique_lock lock(mutex_);
        begun_.wait(lock, [&] { return is_ending_ || round_ != done; });
        if (is_ending_) return;
        done = round_;
        call = call_;
      }
      std::exception_ptr failure = run(*call, replica);
      const std::lock_guard lock(mutex_);
      failures_[static_cast<std::size_t>(replica.index)] = std::move(failure);
      if (--left_ == 0) ended_.notify_one();
    }
  }

  static std::exception_ptr run(const std::function<void(Replica&)>& call, Replica& replica) {
    try {
      call(replica);
      return nullptr;
    } catch (...) {
      replica.group.abort("a replica has failed");
      return std::current_exception();
    }
  }

  void throw_failure() {
    std::exception_ptr first;
    for (auto& failure : failures_) {
      if (!failure) continue;
      has_failed_ = true;
      if (!first || (is_consequence(first) && !is_consequence(failure))) first = failure;
    }
    if (first) std::rethrow_exception(first);
  }

  OwnProcess process_;
  std::vector<Replica> replicas_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable begun_;
  std::condition_variable ended_;
  const std::function<void(Replica&)>* call_ = nullptr;
  std::uint64_t round_ = 0;
  int left_ = 0;
  bool is_ending_ = false;
  bool has_failed_ = false;
  std::vector<std::exception_ptr> failures_;
  std::vector<std::thread> threads_;
};

ReplicaThreads::ReplicaThreads(int count) : impl_(make_for_this_process<Impl>(checked(count))) {}
ReplicaThreads::~ReplicaThreads() = default;

int ReplicaThreads::count() const {
  return impl_->count();
}
void ReplicaThreads::apply(const std::function<void(Replica&)>& call) {
  impl_->apply(call);
}

}  // namespace ddprun
