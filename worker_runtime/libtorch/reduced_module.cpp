#include "worker_runtime/libtorch/reduced_module.hpp"

#include <ddprun/rank_agreement.hpp>

namespace ddprun::torch {

namespace {

constexpr std::string_view kName = "DistributedDataParallel";
constexpr std::string_view kReducer = "GradientReducer";

/// Compares buffers and frozen parameters, which the reducer does not know, and the order of all
/// tensors.
void require_same_module(const ::torch::nn::Module& module, ProcessGroup group,
                         const ReducerOptions& options) {
  const bool compares =
      options.verify_parameters && options.sequence == CollectiveSequence::own && group.size() > 1;
  if (compares) require_agreement(group, std::string(kName), facts_of(module));
}

}  // namespace

void refuse_ddp(const std::string& what) {
  throw Error(Errc::usage, std::string(kName) + ": " + what);
}

void rethrow_as_ddp(const Error& error) {
  std::string text = error.what();
  if (text.starts_with(kReducer)) text.replace(0, kReducer.size(), kName);
  throw Error(error.code(), text);
}

GradientReducer make_reducer(const ::torch::nn::Module& module, const ModuleTensors& tensors,
                             const ProcessGroup& group, const ReducerOptions& options) {
  require_same_module(module, group, options);
  if (tensors.parameters.empty())
    refuse_ddp("no parameter of the module requires a gradient, so there is nothing to average");
  if (options.accumulate_in_float32) {
    refuse_ddp(
        "accumulate_in_float32 is not for LibTorch, whose gradients have their parameters' type");
  }
  return as_ddp([&] {
    GradientReducer reducer(group, reduced_parameters(tensors.parameters),
                            broadcast_buffers(tensors.buffers), options);
    // Its constructor compares and broadcasts.
    if (!tensors.frozen.empty()) {
      GradientReducer(group, reduced_parameters(tensors.frozen), {},
                      {.verify_parameters = options.verify_parameters,
                       .broadcast_state = options.broadcast_state});
    }
    return reducer;
  });
}

}  // namespace ddprun::torch
