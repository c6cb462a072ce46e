#include "worker_runtime/backends/host/tcp/exchange.hpp"

#include "worker_runtime/backends/host/shared_memory/call.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sys/socket.h>
#include <sys/uio.h>

namespace ddprun::tcp {

namespace {

using shared_memory::FailureKind;

// Maximum transfer at a time, so that all connections advance and received data is still in the
// cache when it is combined.
constexpr std::size_t kBurstBytes = 256 << 10;
// Peers are rarely later than that; afterwards, sleeping is cheaper than polling.
constexpr int kYields = 20;
}  // namespace

Exchange::Exchange(Mesh& mesh, FirstFailure& failure, const shared_memory::CallHeader& call,
                   std::uint32_t step)
    : mesh_(mesh), failure_(failure), frame_{.step = step, .call = call} {}

void Exchange::send(int peer, const void* data, std::size_t bytes) {
  add(peer, true, const_cast<void*>(data), bytes);
}

void Exchange::receive(int peer, void* data, std::size_t bytes) {
  receives_.push_back(flows_.size());
  add(peer, false, data, bytes);
}

void Exchange::add(int peer, bool is_send, void* data, std::size_t bytes) {
  Frame frame = frame_;
  frame.bytes = bytes;
  flows_.push_back({.peer = peer,
                    .is_send = is_send,
                    .frame = frame,
                    .data = static_cast<std::byte*>(data),
                    .bytes = bytes});
}

std::size_t Exchange::received(std::size_t number) const {
  const std::size_t done = flows_[receives_[number]].done;
  return done - std::min(done, sizeof(Frame));
}

void Exchange::run(Deadline deadline, const std::function<void()>& on_progress) {
  const Deadline limit = deadline.later(kNetworkGrace);
  connect(deadline, limit);
  int idle_turns = 0;
  bool has_slept = false;
  while (true) {
    bool has_moved = false;
    bool has_received = false;
    bool is_done = true;
    for (Flow& flow : flows_) {
      if (!flow.is_done() && advance(flow)) {
        has_moved = true;
        has_received |= !flow.is_send;
      }
      is_done &= flow.is_done();
    }
    if (has_received && on_progress) on_progress();
    if (is_done) {
      mesh_.on_read();
      if (has_slept) mesh_.set_awaited({});
      return;
    }
    if (has_moved) {
      idle_turns = 0;
    } else if (++idle_turns <= kYields) {
      ::sched_yield();
    } else {
      has_slept = true;
      wait(deadline, limit);
    }
  }
}

void Exchange::connect(Deadline deadline, Deadline limit) {
  std::vector<int> peers;
  for (const Flow& flow : flows_) peers.push_back(flow.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  const auto missing = mesh_.connect(peers, limit);
  if (!missing.empty()) time_out(missing, false, deadline);
  for (Flow& flow : flows_) flow.fd = mesh_.fd(flow.peer);
}

/// Transfers data without blocking; returns false if none could be transferred.
bool Exchange::advance(Flow& flow) {
  iovec pieces[2];
  std::size_t count = 0;
  const std::size_t done_of_frame = std::min(flow.done, sizeof flow.frame);
  const std::size_t rest_of_frame = sizeof flow.frame - done_of_frame;
  const std::size_t done_of_data = flow.done - done_of_frame;
  const std::size_t rest = std::min(flow.bytes - done_of_data, kBurstBytes);
  if (rest_of_frame > 0) {
    pieces[count++] = {reinterpret_cast<std::byte*>(&flow.frame) + done_of_frame, rest_of_frame};
  }
  if (rest > 0) pieces[count++] = {flow.data + done_of_data, rest};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  const ssize_t moved = flow.is_send ? ::sendmsg(flow.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                                     : read(flow, message, rest_of_frame > 0);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) mesh_.lose(flow.peer, moved < 0 ? errno : 0);
  flow.done += static_cast<std::size_t>(moved);
  if (!flow.is_send && rest_of_frame > 0 && flow.done >= sizeof flow.frame) check_frame(flow);
  return true;
}

ssize_t Exchange::read(const Flow& flow, msghdr& message, bool is_frame) {
  if (!is_frame) return ::recvmsg(flow.fd, &message, MSG_DONTWAIT);
  const auto reading = mesh_.begin_reading();
  const ssize_t got = ::recvmsg(flow.fd, &message, MSG_DONTWAIT);
  const bool is_whole = got > 0 && flow.done + static_cast<std::size_t>(got) >= sizeof flow.frame;
  if (is_whole && flow.frame.kind == FrameKind::leave) mesh_.note_left(flow.peer, reading);
  return got;
}

void Exchange::check_frame(const Flow& flow) {
  const Frame& frame = flow.frame;
  const std::string peer = failure_.names().name(flow.peer);
  if (frame.kind == FrameKind::leave)
    failure_.fail(FailureKind::left, flow.peer, peer + " has left the process group");
  const bool is_expected = frame.kind == FrameKind::data && frame.step == frame_.step &&
                           frame.bytes == flow.bytes && is_same_call(frame.call, frame_.call);
  if (is_expected) return;
  failure_.fail(FailureKind::mismatch, flow.peer,
                failure_.names().collective(frame_.call.sequence) + ": " +
                    failure_.names().name(mesh_.rank()) + " called " + describe(frame_.call) +
                    " but " + peer + " called " + describe(frame.call));
}

void Exchange::wait(Deadline deadline, Deadline limit) {
  mesh_.on_read();
  std::vector<pollfd> wanted;
  std::vector<int> late;
  std::vector<int> absent;
  for (const Flow& flow : flows_) {
    if (flow.is_done()) continue;
    const short events = flow.is_send ? POLLOUT : POLLIN;
    wanted.push_back({flow.fd, events, 0});
    late.push_back(flow.peer);
    if (!flow.is_send && flow.done == 0) absent.push_back(flow.peer);
  }
  mesh_.set_awaited(absent);
  if (!limit.passed() && mesh_.wait(wanted, limit)) return;
  const bool have_entered = absent.empty();
  time_out(have_entered ? late : absent, have_entered, deadline);
}

void Exchange::time_out(std::vector<int> ranks, bool have_entered, Deadline deadline) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const std::string list = "rank(s) " + failure_.names().list(ranks);
  if (frame_.call.sequence == kJoinSequence) {
    failure_.fail(FailureKind::timeout, ranks.front(),
                  "process group: " + list + " did not join " + deadline.describe());
  }
  failure_.fail(FailureKind::timeout, ranks.front(),
                describe(frame_.call) + ", " + failure_.names().collective(frame_.call.sequence) +
                    ": " +
                    (have_entered ? list + " entered it but did not continue"
                                  : "nothing had come from " + list) +
                    " " + deadline.describe());
}

}  // namespace ddprun::tcp
