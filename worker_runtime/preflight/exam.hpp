// Result and progress of a device's health check. A device that does not respond blocks the calling
// thread forever.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace ddprun::preflight {

struct Exam {
  Device device{};        ///< the worker's device
  std::string name{};     ///< name for messages
  std::string problem{};  ///< reason why the device is faulty; empty if it is healthy
  std::string remark{};   ///< a warning; does not exclude the device
  /// Reason why this rank's device cannot exchange data with the others; empty if it can.
  std::string no_exchange{};
  bool is_shared = false;              ///< used by several workers, so measurements are meaningless
  double memory_bytes_per_second = 0;  ///< 0: not measured
  double product_flops = 0;
};

/// Current step of a health check. Any thread.
class Progress {
 public:
  /// `doing` is appended to "has not answered within 60 s ...".
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
  bool is_hung = false;  ///< the thread has not returned, so the process cannot exit normally
};

/// Runs `examine` on a separate thread. Reports an exception, or that the deadline has passed, as a
/// problem of the device.
LimitedExam examine_by(Deadline deadline, const Examine& examine);

}  // namespace ddprun::preflight
