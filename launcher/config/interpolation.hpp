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

/// Intended use of a text.
enum class TextUse {
  value,
  /// Program argument, in which the launcher later replaces ${local_rank} and $$. Keeps
  /// ${local_rank} and doubles every dollar sign of the result.
  program_argument,
};

/// Returns true if the text contains a '$'.
bool has_reference(std::string_view text);

/// Returns `text` with dollar signs doubled, for a configuration file.
std::string with_doubled_dollars(const std::string& text);

/// Replaces references with the results of `lookup`, which also resolves names such as node.name.
/// If a default or message is given, empty variables count as not set.
Parsed<std::string> interpolate(std::string_view text, const EnvironmentLookup& lookup,
                                TextUse use = TextUse::value);

/// Returns the syntax problem of the references in the text, if any.
Problem reference_problem(std::string_view text);

}  // namespace ddprun
