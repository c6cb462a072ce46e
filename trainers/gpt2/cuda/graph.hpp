// Capture of a stream's work into a CUDA graph, for repeated launches.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/cuda/device_objects.hpp"

#include <memory>
#include <utility>

namespace trainer::cuda {

/// Captures work on `stream` into a graph until end() or the destructor.
class Capture {
 public:
  /// Other threads may make calls such as allocations meanwhile; this one may not. In no capture
  /// mode may any thread wait for or query the stream or the device.
  Capture(const RuntimeCalls& calls, const Stream& stream) : calls_(calls), stream_(stream) {
    check(calls, calls.begin_capture(stream.get(), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    cudaGraph_t unwanted = nullptr;
    if (!has_ended_) calls_.end_capture(stream_.get(), &unwanted);
    if (unwanted != nullptr) calls_.graph_destroy(unwanted);
  }

  /// Ends the capture. The caller owns the result.
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    has_ended_ = true;
    check(calls_, calls_.end_capture(stream_.get(), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t launched = nullptr;
    const cudaError_t error = calls_.graph_instantiate(&launched, graph);
    calls_.graph_destroy(graph);
    check(calls_, error, "cudaGraphInstantiate");
    return launched;
  }

 private:
  const RuntimeCalls& calls_;
  const Stream& stream_;
  bool has_ended_ = false;
};

class Graph : public Recording {
 public:
  /// Owns `launched`, and keeps `memory`, which its kernels use.
  Graph(const RuntimeCalls& calls, const Stream& stream, cudaGraphExec_t launched,
        std::shared_ptr<void> memory)
      : calls_(calls), stream_(stream), memory_(std::move(memory)), launched_(launched) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  /// Running launches complete.
  ~Graph() override { calls_.launched_destroy(launched_); }

  void launch() override {
    check(calls_, calls_.graph_launch(launched_, stream_.get()), "cudaGraphLaunch");
  }

 private:
  const RuntimeCalls& calls_;
  const Stream& stream_;
  const std::shared_ptr<void> memory_;
  const cudaGraphExec_t launched_;
};

}  // namespace trainer::cuda
