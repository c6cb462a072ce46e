// Slots of a loader's batches: claimed by free threads in the order of the list, returned to the
// caller in the same order, and reused after the caller has released them. Thread-safe.
#pragma once

#include <ddprun/data_loader.hpp>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace ddprun {

class BatchRing : public std::enable_shared_from_this<BatchRing> {
 public:
  struct Slot {
    enum class State { free, loading, loaded, failed, given };

    std::shared_ptr<void> hold = nullptr;  ///< keeps the memory
    std::span<std::byte> memory = {};
    State state = State::free;
    std::uint64_t number = 0;  ///< index of the batch in the list
    std::vector<std::int64_t> samples = {};
    std::size_t used = 0;  ///< bytes
    std::exception_ptr failure = nullptr;
  };

  BatchRing(ProcessGroup group, DataLoader::List list, std::size_t slots, std::size_t bytes);

  /// Returns a slot with the samples of the next batch; waits for a free one. Null at the end of
  /// the list and after stop().
  Slot* claim();
  void loaded(Slot& slot, std::size_t used);
  void failed(Slot& slot, std::exception_ptr failure);

  /// Returns the next batch of the list; see DataLoader::next().
  std::optional<LoadedBatch> take(Deadline deadline);

  /// Makes every claim() return null.
  void stop();

 private:
  Slot* find(Slot::State state);
  Slot* find_next();
  void release(Slot& slot);
  LoadedBatch give(Slot& slot);

  DataLoader::List list_;
  std::mutex mutex_;
  std::condition_variable freed_;   ///< a slot is free, or the list has ended
  std::condition_variable loaded_;  ///< a batch is loaded or has failed, or the list has ended
  std::vector<Slot> slots_;
  std::uint64_t claimed_ = 0;  ///< number of claimed batches
  std::uint64_t given_ = 0;    ///< number of returned batches
  bool is_at_end_ = false;     ///< no further batches are claimed
  bool has_failed_ = false;
};

}  // namespace ddprun
