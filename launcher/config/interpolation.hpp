// References to variables in texts of a file: ${NAME}, ${NAME:-default}, ${NAME:?message}, and $$
// for a dollar sign. Pure.
#pragma once

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/problem.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <string_view>

namespace ddprun {

/// Maximum length of an argument or variable in Linux (MAX_ARG_STRLEN).
constexpr std::size_t kInterpolatedBytesMax = 128 * 1024 - 1;

/// Use of a text.
enum class TextUse {
  value,
  /// An argument of the program, in which the launcher later replaces ${local_rank} and $$. So
  /// ${local_rank} is kept, and every dollar sign of the result is doubled.
  program_argument,
};

/// Returns true if the text contains a '$'.
bool has_reference(std::string_view text);

/// Escapes `text` for a configuration file.
std::string with_doubled_dollars(const std::string& text);

/// Replaces references by the results of `lookup`, which also knows names such as node.name. With a
/// default or a message, an empty variable counts as not set.
Parsed<std::string> interpolate(std::string_view text, const EnvironmentLookup& lookup,
                                TextUse use = TextUse::value);

/// Returns the problem with the syntax of references in the text.
Problem reference_problem(std::string_view text);

}  // namespace ddprun
