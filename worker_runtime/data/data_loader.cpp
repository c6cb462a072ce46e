#include "rendezvous/base/own_process.hpp"
#include "worker_runtime/data/batch_ring.hpp"
#include <ddprun/data_loader.hpp>
#include <ddprun/error.hpp>

#include <string>
#include <thread>
#include <utility>

namespace ddprun {

namespace {

void check_range(const char* name, std::size_t value, std::size_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(Errc::usage, "data loader: " + std::string(name) + " is " + std::to_string(value) +
                               ", must be 1 to " + std::to_string(most));
}

const DataLoaderOptions& checked(const DataLoaderOptions& options) {
  check_range("threads", options.threads, kLoaderThreadsMax);
  check_range("prefetch", options.prefetch, kPrefetchMax);
  return options;
}

template <typename Function>
Function checked(const char* name, Function function) {
  if (function) return function;
  throw Error(Errc::usage, "data loader: " + std::string(name) + " is empty; pass a function");
}

}  // namespace

class DataLoader::Impl {
 public:
  Impl(ProcessGroup group, List list, Load load, const DataLoaderOptions& options)
      : load_(checked("load", std::move(load))),
        batch_bytes_(checked(options).batch_bytes_max),
        ring_(make_for_this_process<BatchRing>(std::move(group), checked("list", std::move(list)),
                                               options.prefetch, batch_bytes_)) {
    // If the list ends immediately, so do these threads.
    try {
      for (std::size_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      end();  // joins the threads that have started
      throw;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { end(); }

  std::optional<LoadedBatch> next(Deadline deadline) {
    process_.require("data loader: it", "make a loader in the forked child");
    return ring_->take(deadline);
  }

 private:
  void end() {
    ring_->stop();
    for (auto& thread : threads_) thread.join();
  }

  void work() {
    while (BatchRing::Slot* slot = ring_->claim()) {
      try {
        const std::size_t used = load_(slot->samples, slot->memory);
        if (used > batch_bytes_) {
          throw Error(Errc::usage, "data loader: a batch has " + std::to_string(used) +
                                       " bytes, more than batch_bytes_max, " +
                                       std::to_string(batch_bytes_));
        }
        ring_->loaded(*slot, used);
      } catch (...) {
        ring_->failed(*slot, std::current_exception());
      }
    }
  }

  OwnProcess process_;
  Load load_;
  std::size_t batch_bytes_;
  // shared with batches of the caller, which may outlive the loader
  std::shared_ptr<BatchRing> ring_;
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(ProcessGroup group, List list, Load load, DataLoaderOptions options)
    : impl_(make_for_this_process<Impl>(std::move(group), std::move(list), std::move(load),
                                        options)) {}
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::optional<LoadedBatch> DataLoader::next(Deadline deadline) {
  return impl_->next(deadline);
}

}  // namespace ddprun
