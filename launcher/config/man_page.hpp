// The parts of ddprun(1) that are generated from the option table, in mdoc. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// Plain text as lines of mdoc. Paragraphs are separated by an empty line. Marked up are --options,
/// 'literal text', "Sections of the page", NAMES_OF_VARIABLES, SIGNALS and the word ddprun.
std::string mdoc_text(std::string_view text);

/// The lists of options, by group.
std::string man_options();

/// The list of the sections of a configuration file with the options in each.
std::string man_config_keys();

}  // namespace ddprun
