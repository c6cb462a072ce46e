#include "worker_runtime/backends/gloo/gloo_messages.hpp"

#include "worker_runtime/backends/gloo/gloo_store.hpp"
#include <ddprun/error.hpp>

#include <cstring>
#include <string>
#include <utility>

namespace ddprun {

namespace {

// Limit that ProcessGroup::send() documents.
constexpr std::size_t kUnderWayMax = 32;

// Gloo's collectives use the prefixes 1 to 8 in the upper byte.
constexpr std::uint64_t kMessageSlots = std::uint64_t{0x40} << 56;

std::uint64_t slot_of(int tag) {
  return kMessageSlots + static_cast<std::uint32_t>(tag);
}

std::vector<std::uint8_t> copy_of(Buffer buffer) {
  const auto* const begin = static_cast<const std::uint8_t*>(buffer.data);
  return {begin, begin + buffer.bytes()};
}

}  // namespace

void GlooMessages::send(Buffer buffer, int to, int tag, Deadline deadline) {
  if (to == rank_) {
    to_this_rank_[tag].push_back(copy_of(buffer));
    return;
  }
  auto& sent = under_way_[to];
  if (sent.size() == kUnderWayMax) wait_for_oldest(sent, deadline);
  sent.push_back({copy_of(buffer), nullptr});
  Sent& last = sent.back();
  last.buffer = context_.createUnboundBuffer(last.bytes.data(), last.bytes.size());
  last.buffer->send(to, slot_of(tag));
}

void GlooMessages::receive(Buffer buffer, int from, int tag, Deadline deadline) {
  if (from != rank_) {
    const auto wanted = context_.createUnboundBuffer(buffer.data, buffer.bytes());
    wanted->recv(from, slot_of(tag));
    wanted->waitRecv(gloo_timeout(deadline));
    return;
  }
  auto& messages = to_this_rank_[tag];
  if (messages.empty() || messages.front().size() != buffer.bytes()) {
    throw Error(Errc::usage, "recv from this rank itself: nothing of " +
                                 std::to_string(buffer.bytes()) + " bytes has been sent with tag " +
                                 std::to_string(tag));
  }
  if (buffer.bytes() > 0) std::memcpy(buffer.data, messages.front().data(), buffer.bytes());
  messages.pop_front();
}

void GlooMessages::flush(Deadline deadline) {
  for (auto& [to, sent] : under_way_) {
    while (!sent.empty()) wait_for_oldest(sent, deadline);
  }
}

void GlooMessages::wait_for_oldest(std::deque<Sent>& sent, Deadline deadline) {
  sent.front().buffer->waitSend(gloo_timeout(deadline));
  sent.pop_front();
}

}  // namespace ddprun
