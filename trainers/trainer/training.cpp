#include "trainers/trainer/training.hpp"

#include "trainers/frame/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace trainer {

using ddprun::Errc;
using ddprun::Error;

namespace {

/// Returns the outputs of the model for these samples.
Matrix& run_model(Training& training, const Dataset& dataset, std::span<const std::int64_t> samples,
                  Mode mode) {
  gather(dataset, samples, training.batch);
  training.device_batch.load(training.batch);
  return training.model.forward(training.device_batch.inputs, mode);
}

/// Starts a sum over all workers. A single worker calls no collective, so that its backend need not
/// support its device.
ddprun::Work sum_over_workers(Training& training) {
  return training.group.size() > 1 ? training.group.all_reduce(training.sums.buffer)
                                   : ddprun::Work();
}

void write_sums(Training& training, const std::array<double, 2>& values) {
  training.compute.copy_in(std::as_bytes(std::span(values)), training.sums.buffer);
}

/// Waits for the device.
std::array<double, 2> read_sums(Training& training) {
  std::array<double, 2> values = {};
  training.compute.copy_out(training.sums.buffer, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Returns the seconds of communication that did not overlap with computation.
double run_backward(Training& training, const Matrix& output_gradient) {
  training.model.backward(training.device_batch.inputs, output_gradient,
                          [&](const Parameter& parameter) { training.reducer.ready(parameter); });
  double exposed_seconds = 0;
  for (const ddprun::StepTimeline& timeline : training.reducer.finish()) {
    training.trace.write(timeline);
    exposed_seconds += timeline.exposed_seconds();
  }
  return exposed_seconds;
}

void refuse_infinite(const Training& training, double loss) {
  if (std::isfinite(loss)) return;
  throw Error(Errc::usage,
              format("the loss is %g in step %lld: use a smaller --lr than %g%s", loss,
                     static_cast<long long>(training.progress.step), training.options.lr,
                     training.options.checkpoint_dir.empty() ? "" : " and a new --checkpoint_dir"));
}

/// Returns the number of rows whose largest logit is that of the label. Waits for the device.
std::size_t count_right(Training& training, const Matrix& logits) {
  const std::vector<std::int32_t>& labels = training.batch.labels;
  if (labels.empty()) return 0;
  Array exact = logits.memory;
  if (exact.buffer.type != ddprun::DataType::float32) {
    exact = training.compute.allocate(logits.elements(), ddprun::DataType::float32);
    training.compute.run(
        Convert{.input = logits.buffer(), .output = exact.buffer, .elements = logits.elements()});
  }
  std::vector<float> values(logits.elements());
  training.compute.copy_out(exact.buffer.slice(0, values.size()),
                            std::as_writable_bytes(std::span(values)));
  std::size_t right = 0;
  for (std::size_t row = 0; row < logits.rows; ++row) {
    const float* first = values.data() + row * logits.columns;
    if (std::max_element(first, first + logits.columns) - first == labels[row]) ++right;
  }
  return right;
}

}  // namespace

StepResult train_step(Training& training, const EpochBatches& batches, std::int64_t step,
                      bool stop_wanted) {
  const std::int64_t passes = batches.passes();
  const std::int64_t samples = batches.global_samples(step);
  const float share = 1 / static_cast<float>(samples);
  write_sums(training, {0, stop_wanted ? 1.0 : 0.0});
  double exposed_seconds = 0;
  ddprun::Work sharing;
  training.reducer.zero_gradients();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const Matrix& output =
        run_model(training, training.data.train, batches.micro_batch(step, pass), Mode::train);
    training.loss.run(output, training.device_batch, static_cast<double>(share),
                      training.sums.buffer.slice(0, 1));
    const bool is_last = pass + 1 == passes;
    // The losses are summed during the backward pass, like the gradients.
    if (is_last) sharing = sum_over_workers(training);
    training.reducer.begin(is_last);
    exposed_seconds += run_backward(training, output);
  }
  Progress& progress = training.progress;
  ++progress.step;
  training.optimizer.update(training.model.parameters(), progress.step,
                            learning_rate(training.options, progress.step, batches.steps()));

  // The host waits last, after all work has been queued on the device.
  sharing.wait();
  training.reducer.synchronise();
  const auto [loss, stopping] = read_sums(training);
  refuse_infinite(training, loss);
  progress.samples_used += samples;
  progress.epoch_loss += loss;
  return {loss / static_cast<double>(samples), samples, stopping > 0, exposed_seconds};
}

std::uint64_t check_agreement(Training& training) {
  for (StateBuffer* buffer : training.model.buffers()) {
    if (training.group.size() > 1) training.group.broadcast(buffer->values.buffer, 0).wait();
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
  std::size_t right = 0;
  write_sums(training, {0, 0});
  for (std::size_t first = 0; first < own.size(); first += kRows) {
    const auto part = std::span(own).subspan(first, std::min(kRows, own.size() - first));
    const Matrix& output = run_model(training, test_set, part, Mode::evaluate);
    right += count_right(training, output);
    training.loss.run(output, training.device_batch, 0, training.sums.buffer.slice(0, 1));
  }
  write_sums(training, {read_sums(training)[0], static_cast<double>(right)});
  sum_over_workers(training).wait();
  const auto sums = read_sums(training);
  const auto samples = static_cast<double>(test_set.samples);
  const bool has_classes = !test_set.labels.empty();
  return {sums[0] / samples,
          has_classes ? sums[1] / samples : std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace trainer
