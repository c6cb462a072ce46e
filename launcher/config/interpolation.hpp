// References to variables in texts of a file: ${NAME}, ${NAME:-default}, ${NAME:?message}, and $$
// for a dollar sign. Pure.
#pragma once

#include "launcher/cli/option_values.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <string_view>

namespace ddprun {

/// Linux takes no longer argument or variable than this (MAX_ARG_STRLEN).
constexpr std::size_t kInterpolatedBytesMax = 128 * 1024 - 1;

/// What the text is for.
enum class TextUse {
  value,
  /// An argument of the program, in which the launcher afterwards replaces ${local_rank} and $$: so
  /// ${local_rank} stays, and every dollar sign of the result is doubled.
  program_argument,
};

/// True if there is a '$' in it.
bool has_reference(std::string_view text);

/// The text that stands for `text` in a file.
std::string with_doubled_dollars(const std::string& text);

/// `lookup` knows the variables, and what else may be referred to, such as node.name. An empty
/// variable counts as not set where there is a default or a message.
Parsed<std::string> interpolate(std::string_view text, const EnvironmentLookup& lookup,
                                TextUse use = TextUse::value);

/// What is wrong with the text whatever the variables are; empty if nothing is.
std::string reference_problem(std::string_view text);

}  // namespace ddprun
