#include "trainers/trainer/training.hpp"

#include "trainers/frame/text.hpp"
#include "trainers/trainer/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace trainer {

using ddprun::Errc;
using ddprun::Error;

namespace {

/// The loss summed over the batch; `scale` goes into its gradient.
double compute_loss(Training& training, const Matrix& output, float scale) {
  if (training.options.loss == "mse") {
    return mean_squared_error(output, training.batch.targets, scale, training.loss_gradient);
  }
  return cross_entropy(output, training.batch.labels, scale, training.loss_gradient);
}

}  // namespace

StepResult train_step(Training& training, const EpochBatches& batches, std::int64_t step,
                      bool stop_wanted) {
  const std::int64_t passes = batches.passes();
  const std::int64_t samples = batches.global_samples(step);
  auto& shared = training.step_sums;
  shared = {0, stop_wanted ? 1.0 : 0.0};
  double exposed_seconds = 0;
  ddprun::Work sharing;
  training.reducer.zero_gradients();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    gather(training.data.train, batches.micro_batch(step, pass), training.batch);
    const Matrix& output = training.model.forward(training.batch.inputs, Mode::train);
    shared[0] += compute_loss(training, output, 1 / static_cast<float>(samples));
    const bool is_last = pass + 1 == passes;
    // The sum of the losses travels during the backward pass, as the gradients do.
    if (is_last)
      sharing = training.group.all_reduce(ddprun::as_buffer(shared.data(), shared.size()));
    training.reducer.begin(is_last);
    attach_gradients(training.model, training.reducer);
    training.model.backward(
        training.batch.inputs, training.loss_gradient,
        [&](const Parameter& parameter) { training.reducer.ready(parameter.index); });
    const ddprun::StepTimeline timeline = training.reducer.finish();
    training.trace.write(timeline);
    exposed_seconds += timeline.exposed_seconds();
  }
  sharing.wait();
  Progress& progress = training.progress;
  if (!std::isfinite(shared[0])) {
    throw Error(Errc::usage,
                format("the loss is %g in step %lld: use a smaller --lr than %g", shared[0],
                       static_cast<long long>(progress.step) + 1, training.options.lr));
  }
  ++progress.step;
  training.optimizer.update(training.model.parameters(), progress.step,
                            learning_rate(training.options, progress.step, batches.steps()));
  progress.samples_used += samples;
  progress.epoch_loss += shared[0];
  return {shared[0] / static_cast<double>(samples), samples, shared[1] > 0, exposed_seconds};
}

std::uint64_t check_agreement(Training& training) {
  for (StateBuffer* buffer : training.model.buffers()) {
    training.group.broadcast(ddprun::as_buffer(buffer->data(), buffer->size()), 0).wait();
  }
  const std::uint64_t hash = hash_of(training.model);
  auto own = static_cast<std::int64_t>(hash);
  std::vector<std::int64_t> all(static_cast<std::size_t>(training.group.size()));
  training.group.all_gather(ddprun::as_buffer(&own, 1), ddprun::as_buffer(all.data(), all.size()))
      .wait();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(Errc::internal, format("after step %lld the parameters of rank %zu differ from "
                                       "those of rank 0 (%016llx, %016llx)",
                                       static_cast<long long>(training.progress.step), rank,
                                       static_cast<unsigned long long>(all[rank]),
                                       static_cast<unsigned long long>(all[0])));
  }
  return hash;
}

Evaluation evaluate(Training& training) {
  const Dataset& test_set = training.data.test;
  std::vector<std::int64_t> own;
  for (auto i = static_cast<std::size_t>(training.env.rank); i < test_set.samples;
       i += static_cast<std::size_t>(training.env.world_size)) {
    own.push_back(static_cast<std::int64_t>(i));
  }
  constexpr std::size_t kRows = 256;
  std::array<double, 2> sums = {};  // loss, right answers
  for (std::size_t first = 0; first < own.size(); first += kRows) {
    gather(test_set, std::span(own).subspan(first, std::min(kRows, own.size() - first)),
           training.batch);
    const Matrix& output = training.model.forward(training.batch.inputs, Mode::evaluate);
    sums[0] += compute_loss(training, output, 1);
    for (std::size_t row = 0; row < training.batch.labels.size(); ++row) {
      const float* values = output.row(row);
      const auto answer = std::max_element(values, values + output.columns) - values;
      if (answer == training.batch.labels[row]) sums[1] += 1;
    }
  }
  training.group.all_reduce(ddprun::as_buffer(sums.data(), sums.size())).wait();
  const auto samples = static_cast<double>(test_set.samples);
  const bool has_classes = !test_set.labels.empty();
  return {sums[0] / samples,
          has_classes ? sums[1] / samples : std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace trainer
