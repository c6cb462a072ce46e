#include "tests/support/fake_capture.hpp"

#include "tests/support/fake_cuda.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace ddprun::test {

namespace {

struct Node {
  std::function<void()> work;
  std::vector<std::size_t> after;
};

}  // namespace

struct FakeGraphParts {
  std::vector<Node> nodes;
  std::vector<std::function<void()>> releases;

  FakeGraphParts() = default;
  FakeGraphParts(const FakeGraphParts&) = delete;
  FakeGraphParts& operator=(const FakeGraphParts&) = delete;
  ~FakeGraphParts() {
    for (const auto& release : releases) release();
  }
};

class FakeCapture {
 public:
  unsigned long long id = 0;
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread = {};
  bool is_valid = true;
  bool has_ended = false;
  FakeGraph graph = std::make_shared<FakeGraphParts>();
};

namespace {

using Capture = std::shared_ptr<FakeCapture>;

/// Part of a stream in a capture.
struct Member {
  Capture capture;
  std::vector<std::size_t> after;  ///< predecessors of its next work
};

struct Books {
  std::mutex mutex;
  std::map<cudaStream_t, Member> members;
  std::set<cudaStream_t> blocking;
  unsigned long long last_id = 0;
  int failures = 0;
};

Books& books() {
  static Books all;
  return all;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

Member* member_of(cudaStream_t stream) {
  const auto found = books().members.find(stream);
  return found == books().members.end() ? nullptr : &found->second;
}

cudaError_t invalidate(const Capture& capture, cudaError_t error) {
  if (capture->is_valid && !capture->has_ended) ++books().failures;
  capture->is_valid = false;
  return error;
}

void add_all(std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  for (const auto node : from)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

/// All predecessors of the work that follows `after` on a stream.
std::set<std::size_t> all_before(const FakeGraphParts& graph, std::vector<std::size_t> after) {
  std::set<std::size_t> found;
  while (!after.empty()) {
    const auto node = after.back();
    after.pop_back();
    if (!found.insert(node).second) continue;
    after.insert(after.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return found;
}

void run(const FakeGraphParts& graph) {
  std::vector<bool> is_done(graph.nodes.size());
  const auto may_come = [&](std::size_t node) {
    const auto& after = graph.nodes[node].after;
    return !is_done[node] &&
           std::all_of(after.begin(), after.end(), [&](auto other) { return is_done[other]; });
  };
  for (std::size_t done = 0; done < graph.nodes.size(); ++done) {
    std::size_t next = graph.nodes.size() - 1;
    while (!may_come(next)) --next;
    graph.nodes[next].work();
    is_done[next] = true;
  }
}

}  // namespace

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(books().mutex);
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (member_of(stream) != nullptr) return cudaErrorIllegalState;
  const auto capture = std::make_shared<FakeCapture>();
  // Starts at 0, so that programs do not take an id for "none".
  capture->id = books().last_id++;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  books().members[stream] = {capture, {}};
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, FakeGraph& graph) {
  graph = nullptr;
  FakeGraph unused;  // destroyed without the lock
  const std::lock_guard lock(books().mutex);
  const Member* const own = member_of(stream);
  if (own == nullptr || own->capture->origin != stream) return cudaErrorIllegalState;
  const Capture capture = own->capture;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const auto joined = all_before(*capture->graph, own->after);
  bool is_joined = true;
  for (const auto& [other, member] : books().members) {
    if (member.capture != capture) continue;
    for (const auto node : member.after) is_joined = is_joined && joined.count(node) != 0;
  }
  std::erase_if(books().members, [&](const auto& one) { return one.second.capture == capture; });
  capture->has_ended = true;
  unused = std::exchange(capture->graph, nullptr);
  if (!capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!is_joined) return cudaErrorStreamCaptureUnjoined;
  graph = std::move(unused);
  return cudaSuccess;
}

void launch_graph(const FakeGraph& graph, cudaStream_t stream) {
  launch_on(stream, [graph] { run(*graph); });
}

std::size_t fake_graph_size(const FakeGraph& graph) {
  return graph->nodes.size();
}

int fake_capture_failures() {
  const std::lock_guard lock(books().mutex);
  return books().failures;
}

bool capture_work(cudaStream_t stream, const std::function<void()>& work) {
  const std::lock_guard lock(books().mutex);
  Member* const own = member_of(stream);
  if (own == nullptr) return false;
  auto& nodes = own->capture->graph->nodes;
  nodes.push_back({work, std::exchange(own->after, {nodes.size()})});
  return true;
}

bool at_end_of_graph(cudaStream_t stream, std::function<void()> release) {
  const std::lock_guard lock(books().mutex);
  const Member* const own = member_of(stream);
  if (own == nullptr) return false;
  own->capture->graph->releases.push_back(std::move(release));
  return true;
}

std::shared_ptr<CapturedMoment> capture_record(cudaStream_t stream) {
  const std::lock_guard lock(books().mutex);
  const Member* const own = member_of(stream);
  if (own == nullptr) return nullptr;
  return std::make_shared<CapturedMoment>(CapturedMoment{own->capture, own->after});
}

std::optional<cudaError_t> capture_wait(cudaStream_t stream, const CapturedMoment* moment) {
  const std::lock_guard lock(books().mutex);
  Member* const own = member_of(stream);
  if (own == nullptr && moment == nullptr) return std::nullopt;
  if (moment == nullptr) return invalidate(own->capture, cudaErrorStreamCaptureIsolation);
  if (moment->capture->has_ended) {
    if (own != nullptr) invalidate(own->capture, cudaErrorStreamCaptureIsolation);
    return cudaErrorCapturedEvent;
  }
  if (own == nullptr) {
    books().members[stream] = {moment->capture, moment->after};
    return cudaSuccess;
  }
  if (own->capture != moment->capture) {
    invalidate(moment->capture, cudaErrorStreamCaptureMerge);
    return invalidate(own->capture, cudaErrorStreamCaptureMerge);
  }
  add_all(own->after, moment->after);
  return cudaSuccess;
}

cudaError_t query_captured(const CapturedMoment* moment) {
  if (moment == nullptr) return cudaSuccess;
  const std::lock_guard lock(books().mutex);
  return invalidate(moment->capture, cudaErrorCapturedEvent);
}

cudaError_t check_unsafe_call() {
  const std::lock_guard lock(books().mutex);
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& [stream, member] : books().members) {
    const FakeCapture& capture = *member.capture;
    const bool is_own = capture.thread == std::this_thread::get_id();
    const bool counts = is_own ? capture.mode != cudaStreamCaptureModeRelaxed
                               : capture.mode == cudaStreamCaptureModeGlobal &&
                                     thread_mode == cudaStreamCaptureModeGlobal;
    if (counts) error = invalidate(member.capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t check_waiting_call(cudaStream_t stream) {
  {
    const std::lock_guard lock(books().mutex);
    for (const auto& [other, member] : books().members)
      if (stream == nullptr ? member.capture->thread == std::this_thread::get_id()
                            : other == stream)
        return invalidate(member.capture, cudaErrorStreamCaptureUnsupported);
  }
  return check_unsafe_call();
}

cudaError_t fake_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                              unsigned long long* id) {
  const std::lock_guard lock(books().mutex);
  if (stream == nullptr) {
    for (const auto& [other, member] : books().members)
      if (books().blocking.count(other) != 0) return cudaErrorStreamCaptureImplicit;
  }
  const Member* const own = member_of(stream);
  *status = cudaStreamCaptureStatusNone;
  if (own == nullptr) return cudaSuccess;
  *status =
      own->capture->is_valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
  *id = own->capture->id;
  return cudaSuccess;
}

cudaError_t fake_exchange_mode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

void note_stream(cudaStream_t stream, bool is_blocking) {
  const std::lock_guard lock(books().mutex);
  if (is_blocking) books().blocking.insert(stream);
}

void forget_stream(cudaStream_t stream) {
  FakeGraph unused;  // destroyed without the lock
  const std::lock_guard lock(books().mutex);
  books().blocking.erase(stream);
  const auto found = books().members.find(stream);
  if (found == books().members.end()) return;
  unused = found->second.capture->graph;
  books().members.erase(found);
}

}  // namespace ddprun::test
