// Streams, events and memory of a CUDA device, each freed with its owner. Events and memory are of
// the device that is the thread's when they are made; `calls` outlive them.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::cuda {

/// For its life the thread is not kept from calls that CUDA forbids while a stream is captured, by
/// this thread or any other one: not even an event of something else may be asked for then, which
/// would end the capture of a program that knows nothing of it.
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

/// The thread's device, for the life of this object, beside any captures. Afterwards it has its own
/// again, but for a thread on device 0, where all are that have chosen none: to go back there would
/// make CUDA at home on that device, too, which costs hundreds of megabytes of it for each process.
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

/// What stands for the capture that `stream` is part of, for the process' life; 0: it is part of
/// none. Throws Error{Errc::usage} if that capture has failed, or `stream` is the default stream,
/// which cannot be used while a stream that waits for it is captured.
std::uint64_t capture_of(const CudaCalls& calls, cudaStream_t stream);

/// Not ordered with the work of any other stream.
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

  /// Happens once all that `stream` has been given so far is done.
  void record(cudaStream_t stream) {
    check(calls_, calls_.event_record(event_, stream), "cudaEventRecord");
  }

  /// Throws Error{Errc::cuda} if something on the device has failed.
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

/// Events that are used again and again. Any thread.
class EventPool {
 public:
  explicit EventPool(const CudaCalls& calls) : calls_(calls) {}

  /// This object's, until it is given back; freed with this object in any case.
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

/// Grows to the largest that is asked for, and is used again.
class Scratch {
 public:
  explicit Scratch(const CudaCalls& calls) : calls_(calls) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { calls_.free(memory_); }

  bool has(std::size_t bytes) const { return bytes <= bytes_; }

  /// Nothing on the device may use what was returned before, unless there is as much.
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
