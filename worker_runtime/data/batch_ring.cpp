#include "worker_runtime/data/batch_ring.hpp"

#include "rendezvous/base/own_process.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun {

BatchRing::BatchRing(ProcessGroup group, DataLoader::List list, std::size_t slots,
                     std::size_t bytes)
    : list_(std::move(list)), slots_(slots) {
  for (auto& slot : slots_) {
    if (bytes > 0) slot.hold = group.allocate(bytes);
    slot.memory = {static_cast<std::byte*>(slot.hold.get()), bytes};
  }
}

BatchRing::Slot* BatchRing::find(Slot::State state) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [state](const Slot& slot) { return slot.state == state; });
  return found == slots_.end() ? nullptr : &*found;
}

BatchRing::Slot* BatchRing::claim() {
  std::unique_lock lock(mutex_);
  Slot* slot = nullptr;
  freed_.wait(lock, [&] { return is_at_end_ || (slot = find(Slot::State::free)) != nullptr; });
  if (is_at_end_) return nullptr;
  slot->number = claimed_++;
  slot->state = Slot::State::loading;
  slot->failure = nullptr;
  try {
    // Under the lock, so that calls are made in order.
    auto samples = list_();
    if (samples) {
      slot->samples = std::move(*samples);
      return slot;
    }
    --claimed_;
    slot->state = Slot::State::free;
  } catch (...) {
    slot->failure = std::current_exception();
    slot->state = Slot::State::failed;
  }
  is_at_end_ = true;
  freed_.notify_all();
  loaded_.notify_all();
  return nullptr;
}

void BatchRing::loaded(Slot& slot, std::size_t used) {
  const std::lock_guard lock(mutex_);
  slot.used = used;
  slot.state = Slot::State::loaded;
  loaded_.notify_all();
}

void BatchRing::failed(Slot& slot, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  slot.failure = std::move(failure);
  slot.state = Slot::State::failed;
  is_at_end_ = true;
  freed_.notify_all();
  loaded_.notify_all();
}

/// Returns the slot of the next batch in order.
BatchRing::Slot* BatchRing::find_next() {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [this](const Slot& slot) {
    return slot.number == given_ && slot.state != Slot::State::free &&
           slot.state != Slot::State::given;
  });
  return found == slots_.end() ? nullptr : &*found;
}

std::optional<LoadedBatch> BatchRing::take(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (has_failed_) throw Error(Errc::usage, "data loader: next() after a batch that failed");
  const auto all_given = [this] {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.state == Slot::State::given; });
  };
  Slot* slot = nullptr;
  const auto is_known = [&] {
    slot = find_next();
    if (slot != nullptr) return slot->state != Slot::State::loading;
    return is_at_end_ || all_given();
  };
  if (deadline.is_never()) {
    loaded_.wait(lock, is_known);
  } else if (!loaded_.wait_until(lock, deadline.time(), is_known)) {
    throw Error(Errc::timeout, "data loader: batch " + std::to_string(given_) + " was not loaded " +
                                   deadline.describe());
  }
  if (slot == nullptr) {
    if (is_at_end_) return std::nullopt;
    throw Error(Errc::usage, "data loader: next() while all " + std::to_string(slots_.size()) +
                                 " batches are held: let go of one, or raise prefetch");
  }
  ++given_;
  if (slot->state == Slot::State::failed) {
    has_failed_ = true;
    std::rethrow_exception(slot->failure);
  }
  return give(*slot);
}

LoadedBatch BatchRing::give(Slot& slot) {
  slot.state = Slot::State::given;
  // The deleter frees the slot.
  auto hold = std::shared_ptr<void>(
      slot.hold.get(), [ring = shared_from_this(), &slot, process = OwnProcess()](void*) {
        if (process.is_this()) ring->release(slot);
      });
  return {slot.samples, slot.memory.first(slot.used), std::move(hold)};
}

void BatchRing::release(Slot& slot) {
  const std::lock_guard lock(mutex_);
  slot.state = Slot::State::free;
  freed_.notify_one();
}

void BatchRing::stop() {
  const std::lock_guard lock(mutex_);
  is_at_end_ = true;
  freed_.notify_all();
}

}  // namespace ddprun
