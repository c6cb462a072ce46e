// Captures of the fake's streams into graphs, by CUDA's rules: what a stream that is captured is
// given becomes part of a graph, events carry the capture to other streams and back, and what is
// not allowed meanwhile is an error that ends the capture.
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

/// Destroyed with its last copy, and once its launches are through.
using FakeGraph = std::shared_ptr<FakeGraphParts>;

// As cudaStreamBeginCapture(), cudaStreamEndCapture() and cudaGraphLaunch():
cudaError_t begin_capture(cudaStream_t stream,
                          cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal);
cudaError_t end_capture(cudaStream_t stream, FakeGraph& graph);
/// Of what may come next the last that was captured does: what is not kept waiting is early.
void launch_graph(const FakeGraph& graph, cudaStream_t stream);

std::size_t fake_graph_size(const FakeGraph& graph);

/// How many captures have been ended by a call that is not allowed.
int fake_capture_failures();

// What fake_cuda() is made of:

/// What an event recorded in a capture stands for.
struct CapturedMoment {
  std::shared_ptr<FakeCapture> capture;
  std::vector<std::size_t> after;
};

/// False if `stream` is part of no capture.
bool capture_work(cudaStream_t stream, const std::function<void()>& work);
/// Calls `release` when the graph that `stream` is captured into is gone; false as above.
bool at_end_of_graph(cudaStream_t stream, std::function<void()> release);
/// Null if `stream` is part of no capture.
std::shared_ptr<CapturedMoment> capture_record(cudaStream_t stream);
/// Nothing if neither `stream` nor what it is to wait for, which may be null, is of a capture.
std::optional<cudaError_t> capture_wait(cudaStream_t stream, const CapturedMoment* moment);
/// cudaSuccess if `moment` is null.
cudaError_t query_captured(const CapturedMoment* moment);
/// For calls that may not be made beside captures, unless the thread says that it knows better.
cudaError_t check_unsafe_call();
/// For calls that wait for `stream`, or any stream if that is null.
cudaError_t check_waiting_call(cudaStream_t stream);
cudaError_t fake_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                              unsigned long long* id);
cudaError_t fake_exchange_mode(cudaStreamCaptureMode* mode);
/// Blocking streams wait for the default stream, and it for them.
void note_stream(cudaStream_t stream, bool is_blocking);
void forget_stream(cudaStream_t stream);

}  // namespace ddprun::test
