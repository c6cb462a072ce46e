// The gradient reducer of a module, and its errors in the name of what users write.
#pragma once

#include "worker_runtime/libtorch/module_tensors.hpp"
#include <ddprun/error.hpp>
#include <ddprun/gradient_reducer.hpp>

#include <string>
#include <string_view>
#include <typeinfo>

namespace ddprun::torch {

/// Throws Error{Errc::usage}.
[[noreturn]] void refuse_ddp(const std::string& what);

/// Error{code} with what the reducer says, as DistributedDataParallel's if it is the reducer's own.
[[noreturn]] void rethrow_as_ddp(const Error& error);

/// What `call` returns.
template <typename Call>
decltype(auto) as_ddp(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    // Those with more to tell than a message are not the reducer's own.
    if (typeid(error) != typeid(Error)) throw;
    rethrow_as_ddp(error);
  }
}

/// Of `tensors`, which are the module's. Blocks until all ranks have compared theirs, and have rank
/// 0's values. Throws Error{Errc::usage} naming the first tensor in which they differ.
GradientReducer make_reducer(const ::torch::nn::Module& module, const ModuleTensors& tensors,
                             const ProcessGroup& group, const ReducerOptions& options);

}  // namespace ddprun::torch
