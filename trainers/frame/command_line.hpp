// The habits of the trainers' command lines: options spelled with dashes or underscores, a file of
// options, and errors that say where the list is.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace trainer {

/// A number from `least` to `most`, and a whole one. Unlike CLI::Range they say of a word that it
/// is no number.
CLI::Validator between(double least, double most);
CLI::Validator whole(std::int64_t least, std::int64_t most);

/// Adds --config and parses. Returns the help if that was asked for, otherwise nothing. Throws
/// Error{Errc::usage} saying what is wrong: an unknown option, a bad value.
std::string parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace trainer
