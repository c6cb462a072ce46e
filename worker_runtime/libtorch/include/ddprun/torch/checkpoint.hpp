// What LibTorch trains, as sections of ddprun's checkpoints: atomic files, which a run with another
// number of workers can go on from, too. Blocking; one thread at a time.
#pragma once

#include <ddprun/checkpoint.hpp>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>

namespace ddprun::torch {

/// Parameters and buffers, as the module's save() writes them.
void put_module(Checkpoint& checkpoint, const std::string& section,
                const ::torch::nn::Module& module);

/// Loads what put_module() put. Tensors stay where they are, so it may be called before a module is
/// wrapped and after. Throws Error{Errc::usage} naming what the module has and the section has not,
/// or otherwise; the module is as it was then. What only the section has is left out.
void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module);

/// Options and what the optimizer knows of each parameter.
void put_optimizer(Checkpoint& checkpoint, const std::string& section,
                   const ::torch::optim::Optimizer& optimizer);

/// Of the same kind, and over the same parameters in the same order, as the one that was put.
/// Throws Error{Errc::usage} if it is not; the optimizer is undefined then.
void get_optimizer(const Checkpoint& checkpoint, const std::string& section,
                   ::torch::optim::Optimizer& optimizer);

}  // namespace ddprun::torch
