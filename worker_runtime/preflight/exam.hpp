// What a look at one device tells, and how others hear of it meanwhile: a device that does not
// answer holds the thread that asked it for good.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace ddprun::preflight {

struct Exam {
  Device device{};        ///< that the worker will use
  std::string name{};     ///< of it, for people
  std::string problem{};  ///< empty: it is in order
  std::string remark{};   ///< worth a look; no reason not to use it
  /// Why the workers' devices cannot exchange data, on this rank; empty: they can.
  std::string no_exchange{};
  bool is_shared = false;              ///< with other workers: how fast it is tells nothing
  double memory_bytes_per_second = 0;  ///< 0: not measured
  double product_flops = 0;
};

/// How far an exam has come. Any thread.
class Progress {
 public:
  /// `doing` continues "has not answered within 60 s ...".
  void note(std::string device, std::string doing) {
    const std::lock_guard lock(mutex_);
    device_ = std::move(device);
    doing_ = std::move(doing);
  }
  std::string device() const {
    const std::lock_guard lock(mutex_);
    return device_;
  }
  std::string doing() const {
    const std::lock_guard lock(mutex_);
    return doing_;
  }

 private:
  mutable std::mutex mutex_;
  std::string device_ = "its device";
  std::string doing_;
};

/// May throw, and may never return.
using Examine = std::function<Exam(Progress& progress)>;

struct LimitedExam {
  Exam exam;
  bool is_hung = false;  ///< a thread is still at it, and the process cannot end as others do
};

/// `examine` on a thread of its own. What it throws, and that it has not come back by then, is the
/// device's problem.
LimitedExam examine_by(Deadline deadline, const Examine& examine);

}  // namespace ddprun::preflight
