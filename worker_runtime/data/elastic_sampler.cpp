#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>

#include <algorithm>

namespace ddprun {

namespace {

/// Limit of counts, so that the sum of a cursor and a window cannot overflow.
constexpr std::int64_t kCountMax = std::int64_t{1} << 60;

[[noreturn]] void refuse_sampling(const std::string& what) {
  throw Error(Errc::usage, "elastic sampler: " + what);
}

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  refuse_sampling(std::string(name) + " is " + std::to_string(value) + ", must be " +
                  std::to_string(least) + " to " + std::to_string(most));
}

std::string name_of(SampleOrder order) {
  switch (order) {
    case SampleOrder::pytorch:
      return "pytorch";
    case SampleOrder::computed:
      return "computed";
    case SampleOrder::sequential:
      break;
  }
  return "sequential";
}

std::string name_of(TailPolicy tail) {
  switch (tail) {
    case TailPolicy::smaller:
      return "smaller";
    case TailPolicy::drop:
      return "drop";
    case TailPolicy::pad:
      break;
  }
  return "pad";
}

/// Returns the differences between two runs; empty if they are equal.
std::string differences(const ElasticSamplerOptions& then, const ElasticSamplerOptions& now) {
  std::string text;
  const auto compare = [&](const char* name, const std::string& before, const std::string& after) {
    if (before == after) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + " was " + before + " and is " + after;
  };
  compare("samples", std::to_string(then.samples), std::to_string(now.samples));
  compare("global_batch", std::to_string(then.global_batch), std::to_string(now.global_batch));
  compare("seed", std::to_string(then.seed), std::to_string(now.seed));
  compare("order", name_of(then.order), name_of(now.order));
  compare("tail", name_of(then.tail), name_of(now.tail));
  return text;
}

}  // namespace

ElasticSampler::ElasticSampler(ElasticSamplerOptions options, int world_size, int rank)
    : ElasticSampler(State{.options = options}, world_size, rank) {}

ElasticSampler ElasticSampler::resumed(const State& state, int world_size, int rank) {
  return {state, world_size, rank};
}

ElasticSampler::ElasticSampler(const State& state, int world_size, int rank)
    : options_(state.options), world_size_(world_size), rank_(rank) {
  const bool is_listed = options_.order == SampleOrder::pytorch;
  check_range("samples", options_.samples, 0, is_listed ? kPermutationMax - 1 : kCountMax);
  check_range("global_batch", options_.global_batch, 1, kCountMax);
  check_range("world_size", world_size, 1, std::int64_t{1} << 31);
  check_range("rank", rank, 0, world_size - 1);
  go_to(state);
  make_order();
}

void ElasticSampler::go_to(const State& state) {
  check_range("saved epoch", state.epoch, 0, kCountMax);
  check_range("saved cursor", state.cursor, 0, options_.samples);
  epoch_ = state.epoch;
  cursor_ = state.cursor;
}

void ElasticSampler::make_order() {
  if (options_.order != SampleOrder::pytorch) return;
  const DistributedSampler all(options_.samples, 1, 0, {.shuffle = true, .seed = options_.seed});
  order_ = all.indices(epoch_);
}

std::int64_t ElasticSampler::sample_at(std::int64_t position) const {
  switch (options_.order) {
    case SampleOrder::pytorch:
      return order_[static_cast<std::size_t>(position)];
    case SampleOrder::computed:
      // Seeds are not added: seed 0 in epoch 5 must differ from seed 5 in epoch 0.
      return permuted(position, options_.samples,
                      options_.seed ^ (0x2545'f491'4f6c'dd1d * static_cast<std::uint64_t>(epoch_)));
    case SampleOrder::sequential:
      break;
  }
  return position;
}

std::int64_t ElasticSampler::window_size(std::int64_t cursor) const {
  const std::int64_t left = std::max<std::int64_t>(options_.samples - cursor, 0);
  if (left >= options_.global_batch || left == 0) return std::min(left, options_.global_batch);
  switch (options_.tail) {
    case TailPolicy::drop:
      return 0;
    case TailPolicy::pad:
      return options_.global_batch;
    case TailPolicy::smaller:
      break;
  }
  return left;
}

bool ElasticSampler::is_at_end() const {
  return window_size() == 0;
}

std::int64_t ElasticSampler::steps() const {
  const std::int64_t whole = options_.samples / options_.global_batch;
  const bool has_tail = options_.samples % options_.global_batch != 0;
  return whole + (has_tail && options_.tail != TailPolicy::drop ? 1 : 0);
}

std::int64_t ElasticSampler::new_samples() const {
  return std::min(window_size(), options_.samples - cursor_);
}

std::vector<std::int64_t> ElasticSampler::samples_ahead(std::int64_t steps) const {
  if (steps < 0) {
    refuse_sampling("samples_ahead(" + std::to_string(steps) +
                    "): the number of steps is negative");
  }
  std::vector<std::int64_t> own;
  // At the end; also avoids an overflow below.
  if (steps > (options_.samples - cursor_) / options_.global_batch) return own;
  const std::int64_t first = cursor_ + steps * options_.global_batch;
  const std::int64_t size = window_size(first);
  for (std::int64_t i = rank_; i < size; i += world_size_) {
    own.push_back(sample_at((first + i) % options_.samples));
  }
  return own;
}

bool ElasticSampler::is_repeated(std::size_t index) const {
  const std::int64_t size = window_size();
  const std::int64_t own = size > rank_ ? (size - rank_ - 1) / world_size_ + 1 : 0;
  if (index >= static_cast<std::size_t>(own)) {
    refuse_sampling("is_repeated(" + std::to_string(index) + "): the worker has " +
                    std::to_string(own) + " samples in this step");
  }
  const std::int64_t item = rank_ + static_cast<std::int64_t>(index) * world_size_;
  return cursor_ + item >= options_.samples;
}

void ElasticSampler::commit() {
  cursor_ += new_samples();
}

void ElasticSampler::next_epoch() {
  if (!is_at_end()) {
    refuse_sampling("next_epoch() after " + std::to_string(cursor_) + " of " +
                    std::to_string(options_.samples) + " samples of epoch " +
                    std::to_string(epoch_) + ": commit all steps first");
  }
  ++epoch_;
  cursor_ = 0;
  make_order();
}

ElasticSampler::State ElasticSampler::state() const {
  return {.epoch = epoch_, .cursor = cursor_, .options = options_};
}

void ElasticSampler::load(const State& state, bool force) {
  const std::string different = differences(state.options, options_);
  if (!different.empty() && !force) {
    refuse_sampling("the saved state is of another training: " + different +
                    " (samples would be lost or used twice)");
  }
  const std::int64_t epoch_before = epoch_;
  go_to(state);
  if (epoch_ != epoch_before) make_order();
}

}  // namespace ddprun
