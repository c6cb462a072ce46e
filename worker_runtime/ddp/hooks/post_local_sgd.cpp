#include <ddprun/bucket_hooks.hpp>

#include <memory>
#include <string>
#include <utility>

namespace ddprun {

BucketHook post_local_sgd(ProcessGroup group, PostLocalSgdOptions options) {
  struct State {
    ProcessGroup group;
    PostLocalSgdOptions options;
    std::int64_t step = 0;  ///< index of the current synchronised step
  };
  const auto state = std::make_shared<State>(State{std::move(group), std::move(options)});
  return {.name = "post-local SGD after " + std::to_string(state->options.start_step),
          .start =
              [state](const BucketView& bucket, Work& work) {
                const bool is_exact = state->step < state->options.start_step;
                if (bucket.is_last) ++state->step;
                if (is_exact) {
                  work = state->group.all_reduce(bucket.gradients, bucket.op);
                } else if (state->options.subgroup && state->options.subgroup->size() > 1) {
                  work = state->options.subgroup->all_reduce(bucket.gradients, bucket.op);
                }
              },
          .keeps_ranks_equal = false};
}

ModelAverager::ModelAverager(ProcessGroup group, std::vector<Buffer> parameters,
                             std::int64_t period, std::int64_t start_step)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      period_(period),
      start_step_(start_step) {
  if (period_ < 1) {
    throw Error(Errc::usage, "model averager: a period of " + std::to_string(period_) +
                                 " steps, must be at least 1");
  }
}

bool ModelAverager::step() {
  const std::int64_t since_start = steps_++ - start_step_;
  if (since_start < 0 || since_start % period_ != 0) return false;
  if (group_.size() == 1) return true;
  std::vector<Work> works;
  for (const Buffer& parameter : parameters_) {
    if (parameter.elements > 0) works.push_back(group_.all_reduce(parameter, ReduceOp::average));
  }
  for (const auto& work : works) work.wait();
  return true;
}

}  // namespace ddprun
