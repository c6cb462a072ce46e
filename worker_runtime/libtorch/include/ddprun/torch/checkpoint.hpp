// Stores modules and optimizers of LibTorch as sections of ddprun's checkpoints: atomic files, from
// which a run with a different number of workers can resume. Blocking; one thread at a time.
#pragma once

#include <ddprun/checkpoint.hpp>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>

namespace ddprun::torch {

/// Adds parameters and buffers in the format of the module's save().
void put_module(Checkpoint& checkpoint, const std::string& section,
                const ::torch::nn::Module& module);

/// Loads a section of put_module(). Tensors keep their memory, so modules may be wrapped before or
/// after. Throws Error{Errc::usage} that names the first tensor that is missing in the section or
/// module or differs in shape or type; the module is then unchanged. Compares only names, shapes
/// and types, so it accepts a section of another model with the same layers. For modules with their
/// own save() and load(), only parameters and buffers are compared.
void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module);

/// Adds the options and the state of each parameter. Equal states of LibTorch's optimizers have
/// equal bytes. Other optimizers are written by their save(). Throws Error{Errc::usage} if LibTorch
/// cannot write the optimizer, such as LBFGS after a step (1.13, 2.7.1).
void put_optimizer(Checkpoint& checkpoint, const std::string& section,
                   const ::torch::optim::Optimizer& optimizer);

/// Loads a section of put_optimizer(). The optimizer must be of the same kind and have the same
/// parameters in the same order. Compares the numbers of groups and parameters. For LibTorch's
/// kinds, also compares the kind, the shapes and types of the state, and the options amsgrad and
/// centered, which require state. Throws Error{Errc::usage} if they differ and leaves the optimizer
/// unchanged; after an Error of LibTorch, the optimizer is undefined. Other kinds may keep state
/// that the section lacks, depending on their load(). Sections of earlier versions have no kind;
/// options are compared instead, but are equal for Adam and AdamW. LibTorch 1.13 does not load
/// options (learning rate, ...), which keep the constructor's values.
void get_optimizer(const Checkpoint& checkpoint, const std::string& section,
                   ::torch::optim::Optimizer& optimizer);

}  // namespace ddprun::torch
