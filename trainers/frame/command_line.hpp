// Common behaviour of the trainers' command lines: options with dashes or underscores, an options
// file, and errors that refer to the help.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace trainer {

/// Returns validators for a number or an integer from `least` to `most`. Unlike CLI::Range, they
/// report other text as "not a number".
CLI::Validator between(double least, double most);
CLI::Validator whole(std::int64_t least, std::int64_t most);

/// Adds --config and parses. Returns the help if it was requested, otherwise an empty string.
/// Throws Error{Errc::usage} for unknown options and invalid values.
std::string parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace trainer
