// The places of a loader's batches: claimed in the order of the list by whichever thread is free,
// given out in the same order, and free again when the caller has let go. Any thread may call.
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
    std::uint64_t number = 0;  ///< of the batch, in the order of the list
    std::vector<std::int64_t> samples = {};
    std::size_t used = 0;  ///< bytes
    std::exception_ptr failure = nullptr;
  };

  BatchRing(ProcessGroup group, DataLoader::List list, std::size_t slots, std::size_t bytes);

  /// A place with the samples of the next batch; waits for one to be free. Null when there is
  /// nothing more to load.
  Slot* claim();
  void loaded(Slot& slot, std::size_t used);
  void failed(Slot& slot, std::exception_ptr failure);

  /// The next batch of the list. See DataLoader::next().
  std::optional<LoadedBatch> take(Deadline deadline);

  /// Lets every claim() return null.
  void stop();

 private:
  Slot* find(Slot::State state);
  Slot* find_next();
  void release(Slot& slot);
  LoadedBatch give(Slot& slot);

  DataLoader::List list_;
  std::mutex mutex_;
  std::condition_variable freed_;   ///< a place is free, or there is nothing more to load
  std::condition_variable loaded_;  ///< a batch is loaded or failed, or the list has ended
  std::vector<Slot> slots_;
  std::uint64_t claimed_ = 0;  ///< batches
  std::uint64_t given_ = 0;    ///< batches
  bool is_at_end_ = false;     ///< nothing more is claimed
  bool has_failed_ = false;
};

}  // namespace ddprun
