// The training itself: one step of all workers, the comparison of their parameters, and the test
// set. Every function but the constructor calls collectives, so all ranks have to call it.
#pragma once

#include "trainers/trainer/batches.hpp"
#include "trainers/trainer/collective_trace.hpp"
#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/device_batch.hpp"
#include "trainers/trainer/loss.hpp"
#include "trainers/trainer/setup.hpp"
#include "trainers/trainer/training_state.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <cstdint>

namespace trainer {

/// One worker's view of the run. What it refers to outlives the group, whose thread works with it.
struct Training {
  const Options& options;
  const ddprun::WorkerEnv& env;
  const TrainAndTest& data;
  Compute& compute;
  const Array& sums;  ///< [2] float64: the loss, and how many workers want to stop
  ddprun::ProcessGroup group;
  Model& model;
  Optimizer& optimizer;
  ModelReducer reducer;
  Progress progress;
  CollectiveTrace& trace;
  Loss loss;
  DeviceBatch device_batch;
  Batch batch = {};
};

struct StepResult {
  double loss = 0;  ///< mean over the samples of all workers
  std::int64_t samples = 0;
  bool stop_wanted = false;    ///< some worker has got a signal to stop
  double exposed_seconds = 0;  ///< communication that no computation has hidden
};

/// One optimizer step on one batch of each worker. Throws Error{Errc::usage} if the loss is not
/// finite any more.
StepResult train_step(Training& training, const EpochBatches& batches, std::int64_t step,
                      bool stop_wanted);

/// All ranks must have the same parameters, bit for bit; anything else is a mistake in the program
/// or a broken machine, and throws. BatchNorm's statistics of rank 0 count, as in PyTorch. Returns
/// a hash of the parameters.
std::uint64_t check_agreement(Training& training);

struct Evaluation {
  double loss = 0;      ///< mean over the test set
  double accuracy = 0;  ///< share of right answers; not a number where there are no classes
};

/// Every worker takes every world_size-th test sample, so that each counts exactly once.
Evaluation evaluate(Training& training);

}  // namespace trainer
