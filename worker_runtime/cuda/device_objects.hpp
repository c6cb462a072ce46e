// RAII for streams, events and memory of a CUDA device. Events and memory belong to the thread's
// current device at construction; `calls` must outlive them.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::cuda {

/// While it exists, the thread may make calls that CUDA forbids during captures of other streams,
/// such as event queries, which would otherwise invalidate a capture of the program.
class BesideCaptures {
 public:
  explicit BesideCaptures(const CudaCalls& calls) : calls_(calls) {
    check(calls, calls.exchange_capture_mode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { calls_.exchange_capture_mode(&mode_); }

 private:
  const CudaCalls& calls_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Sets the thread's device while it exists, independently of captures, and then restores the
/// previous one. Device 0, the initial device of threads, is not restored: that would initialise
/// CUDA there, which allocates hundreds of megabytes for each process.
class OnDevice {
 public:
  OnDevice(const CudaCalls& calls, int device) : calls_(calls), beside_captures_(calls) {
    check(calls, calls.get_device(&before_), "cudaGetDevice");
    is_changed_ = before_ != device;
    const auto what = [device] { return "cudaSetDevice(" + std::to_string(device) + ")"; };
    if (is_changed_) check(calls, calls.set_device(device), what());
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (is_changed_ && before_ != 0) calls_.set_device(before_);
  }

 private:
  const CudaCalls& calls_;
  const BesideCaptures beside_captures_;
  int before_ = 0;
  bool is_changed_ = false;
};

/// Like OnDevice, but ignores errors: a device that has failed cannot be set.
inline std::optional<OnDevice> try_on_device(const CudaCalls& calls, int device) noexcept {
  try {
    return std::optional<OnDevice>(std::in_place, calls, device);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Returns an identifier, unique in the process, of the capture of `stream`; 0 if none. Throws
/// Error{Errc::usage} if the capture has failed, or if `stream` is the default stream and a stream
/// that synchronises with it is captured.
std::uint64_t capture_of(const CudaCalls& calls, cudaStream_t stream);

/// A stream that does not synchronise with others.
class Stream {
 public:
  Stream(const CudaCalls& calls, int device) : calls_(calls) {
    const OnDevice here(calls, device);
    check(calls, calls.stream_create(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { calls_.stream_destroy(stream_); }

  cudaStream_t get() const { return stream_; }

 private:
  const CudaCalls& calls_;
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const CudaCalls& calls) : calls_(calls) {
    check(calls, calls.event_create(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { calls_.event_destroy(event_); }

  /// Records the current work of `stream`.
  void record(cudaStream_t stream) {
    check(calls_, calls_.event_record(event_, stream), "cudaEventRecord");
  }

  /// Throws Error{Errc::cuda} if the device has failed.
  bool has_happened() const {
    const cudaError_t state = calls_.event_query(event_);
    if (state == cudaErrorNotReady) return false;
    check(calls_, state, "work on the device");
    return true;
  }

  cudaEvent_t get() const { return event_; }

 private:
  const CudaCalls& calls_;
  cudaEvent_t event_ = nullptr;
};

/// Pool of reusable events. Any thread.
class EventPool {
 public:
  explicit EventPool(const CudaCalls& calls) : calls_(calls) {}

  /// Returns an event owned by this object, for use until give_back().
  Event& take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return *all_.emplace_back(std::make_unique<Event>(calls_));
    Event* const event = idle_.back();
    idle_.pop_back();
    return *event;
  }
  void give_back(Event& event) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(&event);
  }

 private:
  const CudaCalls& calls_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Event>> all_;
  std::vector<Event*> idle_;
};

/// Reusable memory of the largest requested size.
class Scratch {
 public:
  explicit Scratch(const CudaCalls& calls) : calls_(calls) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { calls_.free(memory_); }

  bool has(std::size_t bytes) const { return bytes <= bytes_; }

  /// If the memory grows, the device must no longer use earlier results.
  void* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return memory_;
    calls_.free(std::exchange(memory_, nullptr));
    bytes_ = 0;
    check(calls_, calls_.allocate(&memory_, bytes),
          "cudaMalloc of " + std::to_string(bytes) + " bytes");
    bytes_ = bytes;
    return memory_;
  }

 private:
  const CudaCalls& calls_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun::cuda
