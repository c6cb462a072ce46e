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

/// Tokens of some sequences, and those that follow them.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

Batch read_batch(const TokenFile& data, std::span<const std::int64_t> windows,
                 std::size_t context) {
  Batch batch;
  batch.tokens.resize(windows.size() * context);
  batch.targets.resize(batch.tokens.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    data.read_window(static_cast<std::size_t>(windows[i]),
                     std::span(batch.tokens).subspan(i * context, context),
                     std::span(batch.targets).subspan(i * context, context));
  }
  return batch;
}

/// Part `pass` of `all`, of at most `size` items.
std::span<const std::int64_t> part(const std::vector<std::int64_t>& all, std::int64_t pass,
                                   std::int64_t size) {
  const std::size_t first = std::min(static_cast<std::size_t>(pass * size), all.size());
  return std::span(all).subspan(first,
                                std::min(static_cast<std::size_t>(size), all.size() - first));
}

/// Backward passes per step, the same on all workers.
std::int64_t passes_of(const Training& training) {
  const Options& options = training.options;
  if (options.global_batch_size == 0) return options.gradient_accumulation;
  const std::int64_t workers = training.env.world_size;
  const std::int64_t share = (options.global_batch_size + workers - 1) / workers;
  return (share + options.batch_size - 1) / options.batch_size;
}

/// The sum over all workers, once the work is done. One alone calls no collective: any backend will
/// do then, whatever device it computes on.
ddprun::Work sum_over_workers(Training& training, const Buffer& values) {
  return training.group.size() > 1 ? training.group.all_reduce(values) : ddprun::Work();
}

/// On a device only its stream waits for the other workers.
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

void refuse_infinite(const Training& training, const StepResult& result) {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  throw Error(Errc::usage,
              format("the loss is %g and the gradients' norm %g in step %lld: use a smaller --lr "
                     "than %g",
                     result.loss, result.gradient_norm, static_cast<long long>(training.step),
                     training.options.lr));
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
  // Every step has the same number of tokens, so what is left of an epoch is dropped.
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
  reducer_options.broadcast_state = false;  // restore() has seen to that
  ddprun::GradientReducer reducer(group, parameters, {}, reducer_options);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    model.parameters()[index].gradient = reducer.gradient(index);
  }
  return reducer;
}

StepResult train_step(Training& training, bool stop_wanted) {
  const Options& options = training.options;
  const std::size_t context = options.shape.context;
  const std::array<double, 2> start = {0, stop_wanted ? 1.0 : 0.0};
  training.compute.copy_in(std::as_bytes(std::span(start)), training.sums.buffer);
  const double tokens =
      static_cast<double>(training.sampler.window_size()) * static_cast<double>(context);
  const std::vector<std::int64_t> own = training.sampler.samples();
  const std::int64_t passes = passes_of(training);
  StepResult result;
  ddprun::Work sharing;
  training.reducer.zero_gradients();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const Batch batch = read_batch(training.data, part(own, pass, options.batch_size), context);
    training.model.forward(batch.tokens, batch.targets, training.sums.buffer.slice(0, 1),
                           1 / tokens);
    const bool is_last = pass + 1 == passes;
    // The sum of the losses travels during the backward pass, as the gradients do.
    if (is_last) sharing = sum_over_workers(training, training.sums.buffer);
    training.reducer.begin(is_last);
    result.exposed_seconds += run_backward(training).exposed_seconds();
  }
  ++training.step;
  training.optimizer.set_step(options, training.step);
  training.optimizer.update(options);
  training.sampler.commit();
  if (training.sampler.is_at_end()) training.sampler.next_epoch();

  // Only now, when a device has been given everything, does the host wait.
  sharing.wait();
  if (training.compute.stream() != nullptr) training.reducer.synchronise();
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
  const std::int64_t size = options.batch_size;
  for (std::int64_t pass = 0; !part(own, pass, size).empty(); ++pass) {
    const Batch batch = read_batch(*training.test_data, part(own, pass, size), context);
    training.model.forward(batch.tokens, batch.targets, total, 0);
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
