#include "worker_runtime/backends/host/shared_memory/messages.hpp"

#include <ddprun/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace ddprun::shared_memory {

namespace {

// Interval of searches for room that messages to several peers may leave.
constexpr std::chrono::milliseconds kReleaseCheckInterval{5};

std::string describe_size(std::uint64_t elements, DataType type) {
  return std::to_string(elements) + " elements of " + to_string(type);
}

}  // namespace

/// Names ranks by their numbers among all workers.
std::string Messages::describe(const Operation& operation) const {
  return std::string(to_string(operation.collective)) +
         (operation.collective == Collective::send ? " to " : " from ") +
         sync_.names().name(operation.peer) + " (tag " + std::to_string(operation.tag) + ")";
}

Messages::Messages(const Region& region, Arena& arena, const Sync& sync, int rank)
    : region_(region),
      arena_(arena),
      sync_(sync),
      rank_(rank),
      early_(static_cast<std::size_t>(region.ranks())) {}

void Messages::send(const Operation& operation, Deadline deadline) {
  const Buffer& input = operation.input;
  Mailbox& mailbox = region_.mailbox(rank_, operation.peer);
  Parcel* parcel = make_parcel(operation, deadline);
  if (input.bytes() > 0) std::memcpy(parcel->bytes(), input.data, input.bytes());
  const std::uint64_t number = mailbox.sent.value.load(std::memory_order_relaxed) + 1;
  const std::uint64_t must_be_taken = number - std::min(number, kMailboxMessages);
  if (!sync_.wait(mailbox.taken, must_be_taken, operation.peer, deadline)) {
    time_out(operation,
             std::to_string(kMailboxMessages) + " earlier messages had not been received",
             deadline);
  }
  mailbox.envelopes[(number - 1) % kMailboxMessages] = {
      .offset = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(parcel) - region_.base()),
      .elements = input.elements,
      .tag = operation.tag,
      .type = input.type};
  outstanding_.push_back({parcel, operation.peer});
  sync_.publish(mailbox.sent, number);
}

Parcel* Messages::make_parcel(const Operation& operation, Deadline deadline) {
  const std::size_t bytes = sizeof(Parcel) + operation.input.bytes();
  while (true) {
    // Read before the search, so that a release in between ends the wait immediately.
    const bool may_wait = !outstanding_.empty();
    const int to = may_wait ? outstanding_.front().to : 0;
    Counter& released = region_.mailbox(rank_, to).released;
    const std::uint64_t seen = released.value.load(std::memory_order_acquire);
    free_released();
    if (void* place = arena_.allocate(bytes); place != nullptr) {
      auto* parcel = static_cast<Parcel*>(place);
      parcel->released.store(0, std::memory_order_relaxed);
      return parcel;
    }
    if (outstanding_.empty()) {
      throw Error(Errc::usage, describe(operation) + ": a message of " +
                                   std::to_string(operation.input.bytes()) +
                                   " bytes finds no room in this rank's " +
                                   std::to_string(arena_.bytes()) +
                                   " bytes of group memory (GroupOptions::arena_bytes)");
    }
    if (!may_wait || outstanding_.front().to != to) continue;
    // Other peers, which do not wake this wait, may make room, too.
    const bool is_only_peer = std::all_of(outstanding_.begin(), outstanding_.end(),
                                          [to](const auto& one) { return one.to == to; });
    const Deadline next = Deadline::after(kReleaseCheckInterval);
    const Deadline until = is_only_peer || deadline.time() < next.time() ? deadline : next;
    if (!sync_.wait(released, seen + 1, to, until) && deadline.passed()) {
      time_out(operation, "earlier messages, which had not been received, left no room for it",
               deadline);
    }
  }
}

void Messages::free_released() {
  std::erase_if(outstanding_, [&](const Outstanding& message) {
    const bool done = message.parcel->released.load(std::memory_order_acquire) != 0;
    if (done) arena_.free(message.parcel);
    return done;
  });
}

void Messages::recv(const Operation& operation, Deadline deadline) {
  auto& early = early_[static_cast<std::size_t>(operation.peer)];
  auto match = std::find_if(early.begin(), early.end(), [&](const Envelope& envelope) {
    return envelope.tag == operation.tag;
  });
  Envelope envelope{};
  if (match != early.end()) {
    envelope = *match;
    early.erase(match);
  } else {
    envelope = next_envelope(operation, deadline);
  }
  const Buffer& output = operation.output;
  if (envelope.elements != output.elements || envelope.type != output.type) {
    sync_.fail_and_throw(FailureKind::mismatch, sync_.names().number(operation.peer),
                         describe(operation) + " on " + sync_.names().name(rank_) + ": " +
                             describe_size(output.elements, output.type) + " expected, " +
                             describe_size(envelope.elements, envelope.type) + " sent");
  }
  auto* parcel = reinterpret_cast<Parcel*>(region_.base() + envelope.offset);
  if (output.bytes() > 0) std::memcpy(output.data, parcel->bytes(), output.bytes());
  parcel->released.store(1, std::memory_order_release);
  Counter& released = region_.mailbox(operation.peer, rank_).released;
  sync_.publish(released, released.value.load(std::memory_order_relaxed) + 1);
}

Envelope Messages::next_envelope(const Operation& operation, Deadline deadline) {
  Mailbox& mailbox = region_.mailbox(operation.peer, rank_);
  auto& early = early_[static_cast<std::size_t>(operation.peer)];
  while (true) {
    const std::uint64_t number = mailbox.taken.value.load(std::memory_order_relaxed) + 1;
    if (!sync_.wait(mailbox.sent, number, operation.peer, deadline))
      time_out(operation, "no message had come", deadline);
    const Envelope envelope = mailbox.envelopes[(number - 1) % kMailboxMessages];
    sync_.publish(mailbox.taken, number);
    if (envelope.tag == operation.tag) return envelope;
    if (early.size() == kEarlyMessagesMax) {
      sync_.fail_and_throw(FailureKind::mismatch, sync_.names().number(operation.peer),
                           describe(operation) + ": " + std::to_string(kEarlyMessagesMax) +
                               " messages with other tags are pending (limit)");
    }
    early.push_back(envelope);
  }
}

void Messages::time_out(const Operation& operation, const std::string& what,
                        Deadline deadline) const {
  sync_.fail_and_throw(FailureKind::timeout, sync_.names().number(operation.peer),
                       describe(operation) + " on " + sync_.names().name(rank_) + ": " + what +
                           " " + deadline.describe());
}

}  // namespace ddprun::shared_memory
