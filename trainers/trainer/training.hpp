// Training of all workers: one step, the comparison of parameters, and the test set. All functions
// except the constructor are collectives.
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

/// State of one worker. Referenced objects must outlive the group, whose thread uses them.
struct Training {
  const Options& options;
  const ddprun::WorkerEnv& env;
  const TrainAndTest& data;
  Compute& compute;
  const Array& sums;  ///< [2] float64: the loss, and the number of workers that want to stop
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
  bool stop_wanted = false;    ///< a worker has received a signal to stop
  double exposed_seconds = 0;  ///< communication that did not overlap with computation
};

/// Runs one optimizer step on one batch of each worker. Throws Error{Errc::usage} if the loss is
/// not finite.
StepResult train_step(Training& training, const EpochBatches& batches, std::int64_t step,
                      bool stop_wanted);

/// Throws unless all ranks have bitwise equal parameters: a difference is a bug or a hardware
/// fault. Broadcasts rank 0's BatchNorm statistics, like PyTorch. Returns a hash of the parameters.
std::uint64_t check_agreement(Training& training);

struct Evaluation {
  double loss = 0;      ///< mean over the test set
  double accuracy = 0;  ///< fraction of correct predictions; NaN without classes
};

/// Evaluates the test set. Every worker evaluates every world_size-th sample, so that each sample
/// is used exactly once.
Evaluation evaluate(Training& training);

}  // namespace trainer
