// Captures of the fake's streams into graphs with CUDA's rules: work given to a captured stream
// becomes part of a graph, events extend the capture to other streams, and a call that is not
// allowed is an error that ends the capture.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ddprun::test {

class FakeCapture;
struct FakeGraphParts;

/// Destroyed with its last copy, after its launches have completed.
using FakeGraph = std::shared_ptr<FakeGraphParts>;

// Like cudaStreamBeginCapture(), cudaStreamEndCapture() and cudaGraphLaunch():
cudaError_t begin_capture(cudaStream_t stream,
                          cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal);
cudaError_t end_capture(cudaStream_t stream, FakeGraph& graph);
/// Of all works that may run next, a launch runs the last captured one: missing dependencies show
/// as work that runs too early.
void launch_graph(const FakeGraph& graph, cudaStream_t stream);

std::size_t fake_graph_size(const FakeGraph& graph);

/// Number of captures that were ended by a call that is not allowed.
int fake_capture_failures();

// Parts of fake_cuda():

/// Position that an event recorded in a capture stands for.
struct CapturedMoment {
  std::shared_ptr<FakeCapture> capture;
  std::vector<std::size_t> after;
};

/// Returns false if `stream` is not part of a capture.
bool capture_work(cudaStream_t stream, const std::function<void()>& work);
/// Calls `release` when the graph that `stream` is captured into is destroyed; returns false like
/// above.
bool at_end_of_graph(cudaStream_t stream, std::function<void()> release);
/// Returns null if `stream` is not part of a capture.
std::shared_ptr<CapturedMoment> capture_record(cudaStream_t stream);
/// Has no effect unless `stream` or the object it waits for, which can be null, belongs to a
/// capture.
std::optional<cudaError_t> capture_wait(cudaStream_t stream, const CapturedMoment* moment);
/// cudaSuccess if `moment` is null.
cudaError_t query_captured(const CapturedMoment* moment);
/// Checks calls that are not allowed during captures, unless the thread has relaxed the mode.
cudaError_t check_unsafe_call();
/// Checks calls that wait for `stream`, or for any stream if that is null.
cudaError_t check_waiting_call(cudaStream_t stream);
cudaError_t fake_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                              unsigned long long* id);
cudaError_t fake_exchange_mode(cudaStreamCaptureMode* mode);
/// Blocking streams wait for the default stream and vice versa.
void note_stream(cudaStream_t stream, bool is_blocking);
void forget_stream(cudaStream_t stream);

}  // namespace ddprun::test
