// Modules and optimizers of LibTorch as sections of ddprun's checkpoints: atomic files, which a run
// with another number of workers can resume from. Blocking; one thread at a time.
#pragma once

#include <ddprun/checkpoint.hpp>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>

namespace ddprun::torch {

/// Adds parameters and buffers in the format of the module's save().
void put_module(Checkpoint& checkpoint, const std::string& section,
                const ::torch::nn::Module& module);

/// Loads a section of put_module(). Tensors keep their memory, so it may be called before or after
/// a module is wrapped. Throws Error{Errc::usage} with the name of the first tensor that is missing
/// in the section or the module, or that differs in shape or type; the module is unchanged then.
/// Only names, shapes and types are compared: a section of another model with the same layers is
/// accepted. For a module with its own save() and load(), only parameters and buffers are compared.
void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module);

/// Adds the options and the state of each parameter. Equal states of LibTorch's own optimizers have
/// equal bytes; other optimizers are written by their save(). Throws Error{Errc::usage} if LibTorch
/// cannot write the optimizer, such as an LBFGS that has taken a step (1.13, 2.7.1).
void put_optimizer(Checkpoint& checkpoint, const std::string& section,
                   const ::torch::optim::Optimizer& optimizer);

/// Loads a section of put_optimizer(). The optimizer must be of the same kind and have the same
/// parameters in the same order. Compares the numbers of groups and parameters and, for LibTorch's
/// own kinds, the kind, shapes and types of the state, and the options amsgrad and centered, which
/// require state. Throws Error{Errc::usage} if they differ, with the optimizer unchanged; after an
/// Error of LibTorch itself the optimizer is undefined. Other kinds may keep state that the section
/// lacks, depending on their load(). Sections of earlier versions have no kind: then options are
/// compared, which are equal for Adam and AdamW. LibTorch 1.13 does not load options (learning
/// rate, ...): they keep the values of the constructor.
void get_optimizer(const Checkpoint& checkpoint, const std::string& section,
                   ::torch::optim::Optimizer& optimizer);

}  // namespace ddprun::torch
