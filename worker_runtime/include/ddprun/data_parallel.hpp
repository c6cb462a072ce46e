// Data parallelism within one process. Each copy of a model processes its rows of a batch on a
// separate thread, and collectives between the threads average the gradients
// (ProcessGroup::create_in_process). C++ has no interpreter lock, so threads run in parallel; but a
// crash ends all of them, and all run on one machine. For one thread at a time.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/reducer_options.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

/// A range of rows of a batch.
struct Rows {
  std::size_t first = 0;  ///< index of the first row
  std::size_t count = 0;  ///< number of rows

  bool operator==(const Rows&) const = default;
};

/// A copy of the model and its group, used by one thread.
struct Replica {
  int index = 0;       ///< index of the replica, equal to its rank in `group`
  int count = 1;       ///< number of replicas
  ProcessGroup group;  ///< group of the replicas, for this thread only

  /// Returns this replica's share of `batch_rows` as contiguous rows. The sizes of shares differ by
  /// at most one row. May be empty.
  Rows rows(std::size_t batch_rows) const;
};

/// One thread per replica.
class ReplicaThreads {
 public:
  /// Starts `count` threads, at most 1024.
  explicit ReplicaThreads(int count);
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;
  ~ReplicaThreads();

  /// Returns the number of replicas.
  int count() const;

  /// Calls `call` on all threads concurrently, and blocks until all have returned. If a call
  /// throws, its group is aborted, so that no other replica waits for it, and apply() rethrows the
  /// exception (the first replica's if several threw, not counting consequences of another
  /// exception). Every later call throws Error{Errc::closed}.
  void apply(const std::function<void(Replica& replica)>& call);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// A model that can be copied and lists its parameters.
template <typename Model>
concept ReplicatedModel = std::copy_constructible<Model> && requires(Model& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Parameter>>;
};

/// Data parallelism for a model with a copy constructor, which creates the replicas.
template <ReplicatedModel Model>
class DataParallel {
 public:
  /// `model` is replica 0 and must outlive this object; the other replicas are copies. Only
  /// parameters are kept equal; each copy has separate other state.
  DataParallel(Model& model, int replicas, const ReducerOptions& options = {})
      : threads_(replicas), parts_(static_cast<std::size_t>(replicas)) {
    threads_.apply([&](Replica& replica) {
      Part& part = part_of(replica);
      if (replica.index > 0) part.copy = std::make_unique<Model>(model);
      part.model = replica.index > 0 ? part.copy.get() : &model;
      part.parameters = part.model->parameters();
      part.reducer.emplace(replica.group, part.parameters, std::vector<Buffer>(), options);
    });
  }

  /// Sets whether steps start with zero gradients, for backward passes that accumulate; true by
  /// default. If false, backward passes must set each gradient, which avoids writing it twice.
  void set_zero_gradients(bool is_wanted) { zeroes_gradients_ = is_wanted; }

  /// Calls `backward` for all replicas concurrently, with the current parameters of `model`. It
  /// must leave the gradients of its rows in the reducer (GradientReducer::gradient(), ready()), as
  /// between begin() and finish(). Blocks until gradient() is the average over the replicas. Throws
  /// like ReplicaThreads::apply().
  template <typename Backward>
  void step(const Backward& backward) {
    threads_.apply([&](Replica& replica) {
      copy_parameters(replica);
      average_gradients(backward, replica);
    });
  }

  /// Like step() above, but each replica then calls `update(model, reducer, replica)` to optimise
  /// its own parameters. The next step uses them without copies, like with one process per replica.
  /// Each replica has a separate optimizer state, and all updates must be equal. After other
  /// changes to the parameters of `model`, such as loading a checkpoint, call refresh().
  template <typename Backward, typename Update>
  void step(const Backward& backward, const Update& update) {
    threads_.apply([&](Replica& replica) {
      average_gradients(backward, replica);
      Part& part = part_of(replica);
      update(*part.model, *part.reducer, std::as_const(replica));
    });
  }

  /// Copies the parameters of `model` to all replicas. Blocks until they are copied.
  void refresh() {
    threads_.apply([&](Replica& replica) { copy_parameters(replica); });
  }

  /// Calls `call` for all replicas concurrently, without computing gradients. Each call must write
  /// its results to its own rows of the caller's memory.
  template <typename Call>
  void apply(const Call& call) {
    threads_.apply([&](Replica& replica) {
      copy_parameters(replica);
      call(*part_of(replica).model, std::as_const(replica));
    });
  }

  /// Returns the averaged gradient of parameter `index` after step().
  Buffer gradient(std::size_t index) const { return parts_.front().reducer->gradient(index); }

  /// Returns the number of replicas.
  int replicas() const { return threads_.count(); }

 private:
  struct Part {
    std::unique_ptr<Model> copy;
    Model* model = nullptr;
    std::vector<Parameter> parameters;
    std::optional<GradientReducer> reducer;
  };

  Part& part_of(const Replica& replica) { return parts_[static_cast<std::size_t>(replica.index)]; }

  template <typename Backward>
  void average_gradients(const Backward& backward, Replica& replica) {
    Part& part = part_of(replica);
    if (zeroes_gradients_) part.reducer->zero_gradients();
    part.reducer->begin();
    backward(*part.model, *part.reducer, std::as_const(replica));
    part.reducer->finish();
  }

  /// The caller must not change the model's parameters during this, since replica 0 uses them.
  void copy_parameters(const Replica& replica) {
    if (replica.index == 0) return;
    const auto& own = part_of(replica).parameters;
    const auto& models = parts_.front().parameters;
    for (std::size_t i = 0; i < own.size(); ++i)
      std::memcpy(own[i].values.data, models[i].values.data, own[i].values.bytes());
  }

  bool zeroes_gradients_ = true;
  ReplicaThreads threads_;
  std::vector<Part> parts_;
};

}  // namespace ddprun
