// Work that a stream is given, captured into a CUDA graph and launched again and again.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/cuda/device_objects.hpp"

#include <memory>
#include <utility>

namespace trainer::cuda {

/// What `stream` is given from now on becomes a graph instead of being done. Ends with its owner.
class Capture {
 public:
  /// Meanwhile other threads may allocate and free memory, for example, which this one may not. In
  /// no mode of capture may anybody wait for the stream or the whole device, or ask after them.
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

  /// The caller's.
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
  /// Takes `launched`; keeps `memory`, which its kernels use.
  Graph(const RuntimeCalls& calls, const Stream& stream, cudaGraphExec_t launched,
        std::shared_ptr<void> memory)
      : calls_(calls), stream_(stream), memory_(std::move(memory)), launched_(launched) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  /// What is under way comes to its end.
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
