// The name under which ddprun was started, and the habits that this name asks for: a link called
// torchrun or torch.distributed.launch makes ddprun stand in for that launcher. Everything in which
// its behaviour then differs from ddprun's own is decided here. Pure functions.
#pragma once

#include "launcher/cli/launch_options.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// Whose habits are asked for.
enum class Persona { ddprun, torchrun, distributed_launch };

struct Invocation {
  std::string name = "ddprun";  ///< as typed, without its folder; messages begin with it
  Persona persona = Persona::ddprun;

  bool operator==(const Invocation&) const = default;
};

/// From the first word of the command line, "/home/me/bin/torchrun".
Invocation invocation_of(std::string_view first_word);

/// Changes what the operator did not ask for into what the persona does by itself. Returns why its
/// rules forbid these options, or nothing.
std::string adopt_habits(LaunchOptions& options, Persona persona);

/// One sentence or two for the help text: what a program is to this persona.
std::string_view meaning_of_program(Persona persona);

}  // namespace ddprun
