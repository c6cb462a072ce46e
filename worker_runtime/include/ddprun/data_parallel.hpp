// Data parallelism within one process: a model is copied, each copy works on its rows of a batch on
// a thread of its own, and their gradients are averaged by collectives between the threads
// (ProcessGroup::create_in_process). In C++ no interpreter's lock stands between the threads; but
// one that crashes takes all with it, and all have to be on this machine.
//
// One thread at a time drives an object of these classes.
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

/// Some of the rows of a batch.
struct Rows {
  std::size_t first = 0;  ///< index of the first row
  std::size_t count = 0;  ///< number of rows

  bool operator==(const Rows&) const = default;
};

/// One of the copies, as seen by its thread.
struct Replica {
  int index = 0;       ///< from 0; the thread's rank in `group`
  int count = 1;       ///< number of replicas
  ProcessGroup group;  ///< of the replicas; for this thread alone

  /// This replica's rows of so many: neighbours, whose numbers differ by one at most. If there are
  /// fewer rows than replicas some have none.
  Rows rows(std::size_t batch_rows) const;
};

/// A thread for each replica.
class ReplicaThreads {
 public:
  /// At most 1024.
  explicit ReplicaThreads(int count);
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;
  ~ReplicaThreads();

  /// Number of replicas.
  int count() const;

  /// Calls `call` on all threads at the same time, and blocks until all have returned. If one
  /// throws, its group is aborted, so that no other waits for it in a collective; the exception is
  /// thrown again here, the first replica's if there are several that are no consequence of
  /// another's, and every later call throws Error{Errc::closed}.
  void apply(const std::function<void(Replica& replica)>& call);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// What DataParallel wants of a model: that it can be copied, and where its parameters are.
template <typename Model>
concept ReplicatedModel = std::copy_constructible<Model> && requires(Model& model) {
  { model.parameters() } -> std::convertible_to<std::vector<Parameter>>;
};

/// Data parallelism for a model of any kind. `Model` is copied by its copy constructor.
template <ReplicatedModel Model>
class DataParallel {
 public:
  /// `model` is replica 0, and must outlive this object; the others are copies. Only parameters
  /// are kept the same: other state of a model stays each copy's own.
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

  /// Whether a step begins with gradients of zero, to be added to. True at first; without, a
  /// backward pass has to set each, which saves writing them twice.
  void set_zero_gradients(bool is_wanted) { zeroes_gradients_ = is_wanted; }

  /// Calls `backward` for all replicas at the same time, with their parameters as `model` has them
  /// now. It is to leave the gradients of its rows in the reducer (GradientReducer::gradient(),
  /// ready()), as between begin() and finish(). Blocks until gradient() has the average over the
  /// replicas; throws as ReplicaThreads::apply().
  template <typename Backward>
  void step(const Backward& backward) {
    threads_.apply([&](Replica& replica) {
      take_parameters(replica);
      average_gradients(backward, replica);
    });
  }

  /// The same, but each replica then calls `update(model, reducer, replica)`, which is to do the
  /// optimizer's work on its own parameters, and the next step goes on with these: nothing is
  /// copied, as with a process for each. An optimizer's state is each replica's own, too, and all
  /// updates have to be the same. What else changes parameters of `model` (a checkpoint) is
  /// followed by a refresh().
  template <typename Backward, typename Update>
  void step(const Backward& backward, const Update& update) {
    threads_.apply([&](Replica& replica) {
      average_gradients(backward, replica);
      Part& part = part_of(replica);
      update(*part.model, *part.reducer, std::as_const(replica));
    });
  }

  /// Gives all replicas the parameters of `model`. Blocks.
  void refresh() {
    threads_.apply([&](Replica& replica) { take_parameters(replica); });
  }

  /// Calls `call` for all replicas at the same time, without gradients. What they compute they
  /// write to their rows of something that the caller has.
  template <typename Call>
  void apply(const Call& call) {
    threads_.apply([&](Replica& replica) {
      take_parameters(replica);
      call(*part_of(replica).model, std::as_const(replica));
    });
  }

  /// That of parameter `index` of the model, after step().
  Buffer gradient(std::size_t index) const { return parts_.front().reducer->gradient(index); }

  /// Number of replicas.
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

  /// Nobody writes the model's meanwhile: replica 0 computes with them, too.
  void take_parameters(const Replica& replica) {
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
