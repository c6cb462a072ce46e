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
/// wrapped and after. Throws Error{Errc::usage} naming the first tensor that only the section or
/// only the module has, or that has another shape or type; the module is as it was then. What
/// names, shapes and types do not tell, a section does not tell either: those of another model with
/// the same layers are taken. A module with a save() and load() of its own, which write more than
/// its parameters and buffers, is asked for these only.
void get_module(const Checkpoint& checkpoint, const std::string& section,
                ::torch::nn::Module& module);

/// Options and what the optimizer knows of each parameter, for LibTorch's own kinds always in the
/// same bytes; other kinds as their save() writes them. Throws Error{Errc::usage} for what LibTorch
/// cannot write, as an LBFGS that has taken a step (1.13, 2.7.1).
void put_optimizer(Checkpoint& checkpoint, const std::string& section,
                   const ::torch::optim::Optimizer& optimizer);

/// Of the same kind, and over the same parameters in the same order, as the one that was put.
/// Throws Error{Errc::usage} if it is not, as far as that can be told: groups and parameters are
/// counted, and of LibTorch's own kinds the kind is compared and the shapes and types of what they
/// know of each parameter, and whether amsgrad and centered, which need state, are on. The
/// optimizer is as it was then; it is undefined after an Error from LibTorch itself. What other
/// kinds know and the section lacks may stay, as their load() has it. Sections of earlier versions
/// do not name their kind: then options are compared, which Adam's and AdamW's do not differ in.
/// LibTorch 1.13 loads no options (learning rate, ...): these stay what the constructor was told.
void get_optimizer(const Checkpoint& checkpoint, const std::string& section,
                   ::torch::optim::Optimizer& optimizer);

}  // namespace ddprun::torch
