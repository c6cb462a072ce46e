// Compatibility modes: a link named torchrun or torch.distributed.launch makes ddprun behave like
// that launcher. All differences in behaviour are decided here. Pure functions.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "rendezvous/base/problem.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// The launcher whose defaults apply.
enum class CompatMode { ddprun, torchrun, distributed_launch };

struct Invocation {
  std::string name = "ddprun";  ///< name as typed, without folder; messages begin with it
  CompatMode mode = CompatMode::ddprun;

  bool operator==(const Invocation&) const = default;
};

/// Returns the invocation for argv[0], such as "/home/me/bin/torchrun".
Invocation invocation_of(std::string_view first_word);

/// Sets the defaults of the mode. Returns a problem if the mode does not allow some option.
Problem apply_compat_mode(LaunchOptions& options, CompatMode mode);

/// Returns the sentences of the help text about PROGRAM.
std::string_view program_help(CompatMode mode);

}  // namespace ddprun
