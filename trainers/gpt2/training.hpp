// Training of all workers: one step, a test, and the comparison of parameters. All functions are
// collectives.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/model.hpp"
#include "trainers/gpt2/optimizer.hpp"
#include "trainers/gpt2/options.hpp"
#include "trainers/gpt2/token_file.hpp"
#include "trainers/gpt2/training_state.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace trainer::gpt2 {

/// State of one worker. Referenced objects must outlive the group, whose thread uses them.
struct Training {
  const Options& options;
  const ddprun::WorkerEnv& env;
  Compute& compute;
  const TokenFile& data;
  const TokenFile* test_data;  ///< null without test data
  Model& model;
  Optimizer& optimizer;
  const Array& sums;  ///< [2] float64: the loss, and the number of workers that want to stop
  ddprun::ProcessGroup group;
  ddprun::GradientReducer reducer;
  ddprun::ElasticSampler sampler;
  std::int64_t step = 0;            ///< number of completed optimizer steps
  std::optional<Batch> batch = {};  ///< batch of this worker; all steps have the same size
  int warm_up_steps = 2;            ///< remaining steps before a step is recorded (--cuda_graph)
  /// Time limit of a recorded step, whose collectives have none.
  ddprun::Deadline::Duration launch_timeout = ddprun::GroupOptions().collective_timeout;
  /// A recorded step. Last member, since a graph must be destroyed before the reducer and the group
  /// whose collectives it contains.
  std::unique_ptr<Recording> recording = {};
};

/// Returns the number of sequences of a step over all workers.
std::int64_t global_batch(const Options& options, const ddprun::WorkerEnv& env);

/// Returns the order of the data's sequences. Throws Error{Errc::usage} if the data has too few for
/// one step.
ddprun::ElasticSampler make_sampler(const Options& options, const ddprun::WorkerEnv& env,
                                    const TokenFile& data);

/// Assigns each parameter of `model` its gradient's memory in a bucket, which saves copies.
/// Gradients have the master weights' type, float32, so that accumulation over passes and workers
/// does not round to bfloat16. The reducer sums instead of averaging: gradients are divided by the
/// tokens of all workers in advance.
ddprun::GradientReducer make_reducer(const ddprun::ProcessGroup& group, Model& model,
                                     Optimizer& optimizer, const Options& options);

struct StepResult {
  double loss = 0;  ///< mean over the tokens of all workers
  double gradient_norm = 0;
  bool stop_wanted = false;  ///< a worker has received a signal to stop
  /// Communication that did not overlap with computation; empty for a recorded step.
  std::optional<double> exposed_seconds = {};
};

/// Runs one optimizer step. Throws Error{Errc::usage} if the loss is not finite.
StepResult train_step(Training& training, bool stop_wanted);

/// Returns the mean loss over the test data's tokens. Every worker uses every world_size-th
/// sequence.
double test_loss(Training& training);

/// Throws unless all ranks have bitwise equal parameters: a difference is a bug or a hardware
/// fault. Returns a hash of the parameters.
std::uint64_t check_agreement(Training& training);

}  // namespace trainer::gpt2
