// Creates the gradient reducer of a module, and converts its errors to those of
// DistributedDataParallel.
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

/// Throws `error` as an error of DistributedDataParallel if it is the reducer's own; otherwise
/// unchanged.
[[noreturn]] void rethrow_as_ddp(const Error& error);

/// Returns the result of `call`. Converts its errors like rethrow_as_ddp().
template <typename Call>
decltype(auto) as_ddp(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    // Derived exceptions are not the reducer's own.
    if (typeid(error) != typeid(Error)) throw;
    rethrow_as_ddp(error);
  }
}

/// `tensors`: tensors of `module`. Blocks until all ranks have compared their tensors and have rank
/// 0's values. Throws Error{Errc::usage} with the name of the first tensor that differs.
GradientReducer make_reducer(const ::torch::nn::Module& module, const ModuleTensors& tensors,
                             const ProcessGroup& group, const ReducerOptions& options);

}  // namespace ddprun::torch
