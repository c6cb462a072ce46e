// The parts of ddprun(1) that are generated from the option table, in mdoc. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// Converts plain text to lines of mdoc. Paragraphs are separated by an empty line. Marks up
/// --options, 'literal text', "Sections of the page", NAMES_OF_VARIABLES, SIGNALS and the word
/// ddprun.
std::string mdoc_text(std::string_view text);

/// Returns the lists of options, by group.
std::string man_options();

/// Returns the list of the sections of a configuration file with their options.
std::string man_config_keys();

}  // namespace ddprun
