#include "trainers/gpt2/training.hpp"

#include "trainers/frame/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace trainer::gpt2 {

using ddprun::DataType;
using ddprun::Errc;
using ddprun::Error;

namespace {

/// Copies these windows of the data to `batch`, which has as many sequences.
void load(Compute& compute, const TokenFile& data, std::span<const std::int64_t> windows,
          std::size_t context, const Batch& batch) {
  std::vector<std::int32_t> inputs(windows.size() * context);
  std::vector<std::int32_t> targets(inputs.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    data.read_window(static_cast<std::size_t>(windows[i]),
                     std::span(inputs).subspan(i * context, context),
                     std::span(targets).subspan(i * context, context));
  }
  compute.copy_in(std::as_bytes(std::span(inputs)), batch.inputs.buffer);
  compute.copy_in(std::as_bytes(std::span(targets)), batch.targets.buffer);
}

/// Returns the number of backward passes per step, equal on all workers.
std::size_t passes_of(const Training& training) {
  const Options& options = training.options;
  if (options.global_batch_size == 0)
    return static_cast<std::size_t>(options.gradient_accumulation);
  const std::int64_t workers = training.env.world_size;
  const std::int64_t share = (options.global_batch_size + workers - 1) / workers;
  return static_cast<std::size_t>((share + options.batch_size - 1) / options.batch_size);
}

/// Starts a sum over all workers. A single worker calls no collective, so that its backend need not
/// support its device.
ddprun::Work sum_over_workers(Training& training, const Buffer& values) {
  return training.group.size() > 1 ? training.group.all_reduce(values) : ddprun::Work();
}

/// On a device, only its stream waits for the other workers.
ddprun::StepTimeline run_backward(Training& training) {
  ddprun::GradientReducer& reducer = training.reducer;
  void* const stream = training.compute.stream();
  if (stream == nullptr) {
    training.model.backward([&](std::size_t index) { reducer.ready(index); });
    return reducer.finish();
  }
  training.model.backward([&](std::size_t index) { reducer.ready(index, stream); });
  return reducer.finish(stream);
}

/// Returns the tokens of all workers in a step.
double tokens_of_step(const Training& training) {
  return static_cast<double>(training.sampler.window_size()) *
         static_cast<double>(training.options.shape.context);
}

/// Copies the step-dependent data to the device.
void load_step(Training& training, bool stop_wanted) {
  const std::array<double, 2> start = {0, stop_wanted ? 1.0 : 0.0};
  training.compute.copy_in(std::as_bytes(std::span(start)), training.sums.buffer);
  const std::size_t context = training.options.shape.context;
  const std::vector<std::int64_t> own = training.sampler.samples();
  if (!training.batch) training.batch = make_batch(training.compute, own.size(), context);
  load(training.compute, training.data, own, context, *training.batch);
  training.optimizer.set_step(training.options, training.step + 1);
}

/// Runs the rest of the step, which is the same in each step. On a device the host does not wait.
/// Returns the seconds of communication that did not overlap with computation.
double run_step(Training& training) {
  const Options& options = training.options;
  const std::size_t context = options.shape.context;
  const double scale = 1 / tokens_of_step(training);
  const std::size_t sequences = training.batch->inputs.buffer.elements / context;
  const auto size = static_cast<std::size_t>(options.batch_size);
  const std::size_t passes = passes_of(training);
  double exposed_seconds = 0;
  ddprun::Work sharing;
  training.reducer.zero_gradients();
  for (std::size_t pass = 0; pass < passes; ++pass) {
    // Some workers may have fewer sequences than passes.
    const std::size_t first = std::min(pass * size, sequences);
    const std::size_t count = std::min(size, sequences - first);
    training.model.forward(part_of(*training.batch, first, count, context),
                           training.sums.buffer.slice(0, 1), scale);
    const bool is_last = pass + 1 == passes;
    // The losses are summed during the backward pass, like the gradients.
    if (is_last) sharing = sum_over_workers(training, training.sums.buffer);
    training.reducer.begin(is_last);
    exposed_seconds += run_backward(training).exposed_seconds();
  }
  void* const stream = training.compute.stream();
  if (stream == nullptr) {
    sharing.wait();
  } else {
    sharing.hold(stream);
  }
  training.optimizer.update(options);
  return exposed_seconds;
}

/// Waits until all workers have completed the step. A single worker waits when it reads the sums.
void await_step(Training& training, bool is_launched) {
  if (training.compute.stream() == nullptr || training.group.size() == 1) return;
  if (!is_launched) return training.reducer.synchronise();
  const auto deadline = ddprun::Deadline::after(training.launch_timeout);
  try {
    training.reducer.synchronise(deadline);
  } catch (const Error& error) {
    // Only an abort ends collectives of a graph, and freeing memory would wait for the graph.
    training.group.abort(error.what());
    if (error.code() != Errc::timeout || !deadline.passed()) throw;
    throw Error(Errc::timeout,
                format("step %lld, a CUDA graph, was not done %s: another worker may hang",
                       static_cast<long long>(training.step), deadline.describe().c_str()));
  }
}

void refuse_infinite(const Training& training, const StepResult& result) {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  throw Error(Errc::usage,
              format("the loss is %g and the gradients' norm %g in step %lld: use a smaller --lr "
                     "than %g%s",
                     result.loss, result.gradient_norm, static_cast<long long>(training.step),
                     training.options.lr,
                     training.options.checkpoint_dir.empty() ? "" : " and a new --checkpoint_dir"));
}

}  // namespace

std::int64_t global_batch(const Options& options, const ddprun::WorkerEnv& env) {
  if (options.global_batch_size > 0) return options.global_batch_size;
  return options.batch_size * options.gradient_accumulation * env.world_size;
}

ddprun::ElasticSampler make_sampler(const Options& options, const ddprun::WorkerEnv& env,
                                    const TokenFile& data) {
  const auto windows = static_cast<std::int64_t>(data.windows(options.shape.context));
  const std::int64_t batch = global_batch(options, env);
  if (windows < batch) {
    throw Error(Errc::usage,
                format("%s has %lld sequences of %zu tokens, but a step takes %lld: use a longer "
                       "text, a shorter --context or a smaller batch",
                       data.name().c_str(), static_cast<long long>(windows), options.shape.context,
                       static_cast<long long>(batch)));
  }
  // Every step has the same number of tokens, so the remainder of an epoch is dropped.
  return {{.samples = windows,
           .global_batch = batch,
           .seed = static_cast<std::uint64_t>(options.seed),
           .order = ddprun::SampleOrder::computed,
           .tail = ddprun::TailPolicy::drop},
          env.world_size,
          env.rank};
}

ddprun::GradientReducer make_reducer(const ddprun::ProcessGroup& group, Model& model,
                                     Optimizer& optimizer, const Options& options) {
  std::vector<ddprun::Parameter> parameters;
  for (std::size_t index = 0; index < model.parameters().size(); ++index) {
    const ParameterSpec& spec = model.parameters()[index].spec;
    parameters.push_back({spec.name, optimizer.states()[index].master.buffer, spec.shape});
  }
  ddprun::ReducerOptions reducer_options;
  reducer_options.bucket_bytes_cap = static_cast<std::size_t>(options.bucket_cap_mb * (1 << 20));
  reducer_options.first_bucket_bytes =
      std::min(reducer_options.first_bucket_bytes, reducer_options.bucket_bytes_cap);
  reducer_options.op = ddprun::ReduceOp::sum;
  reducer_options.broadcast_state = false;  // restore() has broadcast it
  ddprun::GradientReducer reducer(group, parameters, {}, reducer_options);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    model.parameters()[index].gradient = reducer.gradient(index);
  }
  return reducer;
}

StepResult train_step(Training& training, bool stop_wanted) {
  const double tokens = tokens_of_step(training);
  StepResult result;
  load_step(training, stop_wanted);
  const bool is_launched = training.options.cuda_graph && training.warm_up_steps == 0;
  if (is_launched) {
    if (!training.recording) {
      training.recording = training.compute.record([&training] { run_step(training); });
    }
    training.recording->launch();
  } else {
    result.exposed_seconds = run_step(training);
    if (training.warm_up_steps > 0) --training.warm_up_steps;
  }
  ++training.step;
  training.sampler.commit();
  if (training.sampler.is_at_end()) training.sampler.next_epoch();

  // The host waits last, after all work has been queued on the device.
  await_step(training, is_launched);
  std::array<double, 2> sums = {};
  training.compute.copy_out(training.sums.buffer, std::as_writable_bytes(std::span(sums)));
  result.loss = sums[0] / tokens;
  result.stop_wanted = sums[1] > 0;
  result.gradient_norm = training.optimizer.gradient_norm();
  refuse_infinite(training, result);
  return result;
}

double test_loss(Training& training) {
  const Options& options = training.options;
  const std::size_t context = options.shape.context;
  auto windows = static_cast<std::int64_t>(training.test_data->windows(context));
  if (options.test_sequences > 0) windows = std::min(windows, options.test_sequences);
  std::vector<std::int64_t> own;
  for (std::int64_t i = training.env.rank; i < windows; i += training.env.world_size) {
    own.push_back(i);
  }
  const Buffer total = training.sums.buffer.slice(0, 1);
  training.compute.zero(total);
  const auto size = static_cast<std::size_t>(options.batch_size);
  const Batch memory = make_batch(training.compute, std::min(size, own.size()), context);
  for (std::size_t first = 0; first < own.size(); first += size) {
    const std::size_t count = std::min(size, own.size() - first);
    const Batch batch = part_of(memory, 0, count, context);
    load(training.compute, *training.test_data, std::span(own).subspan(first, count), context,
         batch);
    training.model.forward(batch, total, 0);
  }
  sum_over_workers(training, total).wait();
  double sum = 0;
  training.compute.copy_out(total, std::as_writable_bytes(std::span(&sum, 1)));
  return sum / (static_cast<double>(windows) * static_cast<double>(context));
}

std::uint64_t check_agreement(Training& training) {
  const std::uint64_t hash = hash_of(training.compute, training.model);
  if (training.group.size() == 1) return hash;
  const auto ranks = static_cast<std::size_t>(training.group.size());
  const Array own = training.compute.allocate(1, DataType::int64);
  const Array gathered = training.compute.allocate(ranks, DataType::int64);
  training.compute.copy_in(std::as_bytes(std::span(&hash, 1)), own.buffer);
  training.group.all_gather(own.buffer, gathered.buffer).wait();
  std::vector<std::uint64_t> all(ranks);
  training.compute.copy_out(gathered.buffer, std::as_writable_bytes(std::span(all)));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(Errc::internal, format("after step %lld the parameters of rank %zu differ from "
                                       "those of rank 0 (%016llx, %016llx)",
                                       static_cast<long long>(training.step), rank,
                                       static_cast<unsigned long long>(all[rank]),
                                       static_cast<unsigned long long>(all[0])));
  }
  return hash;
}

}  // namespace trainer::gpt2
