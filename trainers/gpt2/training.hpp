// The training itself: one step of all workers, a test, the comparison of their parameters. Every
// function calls collectives, so all ranks have to call it.
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

/// One worker's view of the run. What it refers to outlives the group, whose thread works with it.
struct Training {
  const Options& options;
  const ddprun::WorkerEnv& env;
  Compute& compute;
  const TokenFile& data;
  const TokenFile* test_data;  ///< null if there is none
  Model& model;
  Optimizer& optimizer;
  const Array& sums;  ///< [2] float64: the loss, and how many workers want to stop
  ddprun::ProcessGroup group;
  ddprun::GradientReducer reducer;
  ddprun::ElasticSampler sampler;
  std::int64_t step = 0;            ///< optimizer steps so far
  std::optional<Batch> batch = {};  ///< of this worker's steps, which are all as large
  int warm_up_steps = 2;            ///< left to do before a step is recorded (--cuda_graph)
  /// For a recorded step, as no collective in it has a time limit of its own.
  ddprun::Deadline::Duration launch_timeout = ddprun::GroupOptions().collective_timeout;
  /// Of a step. The last member, so that it goes first: a graph has to be gone before the reducer
  /// and the group whose collectives are part of it.
  std::unique_ptr<Recording> recording = {};
};

/// Sequences of all workers in a step.
std::int64_t global_batch(const Options& options, const ddprun::WorkerEnv& env);

/// Which sequences of the data are used when. Throws Error{Errc::usage} if the data have not enough
/// for one step.
ddprun::ElasticSampler make_sampler(const Options& options, const ddprun::WorkerEnv& env,
                                    const TokenFile& data);

/// Gives each parameter of `model` the memory for its gradient, so that gradients are not copied
/// before they are sent. They have the master weights' type, float32, so that passes and workers
/// add up without rounding to bfloat16. The reducer adds up rather than averages: gradients are
/// divided by the tokens of all workers before.
ddprun::GradientReducer make_reducer(const ddprun::ProcessGroup& group, Model& model,
                                     Optimizer& optimizer, const Options& options);

struct StepResult {
  double loss = 0;  ///< mean over the tokens of all workers
  double gradient_norm = 0;
  bool stop_wanted = false;  ///< some worker has got a signal to stop
  /// Communication that no computation has hidden, unless the step was launched as a recording.
  std::optional<double> exposed_seconds = {};
};

/// One optimizer step. Throws Error{Errc::usage} if the loss is not finite any more.
StepResult train_step(Training& training, bool stop_wanted);

/// The mean loss over the test data's tokens. Every worker takes every world_size-th sequence.
double test_loss(Training& training);

/// All ranks must have the same parameters, bit for bit; anything else is a mistake in the program
/// or a broken machine, and throws. Returns a hash of the parameters.
std::uint64_t check_agreement(Training& training);

}  // namespace trainer::gpt2
