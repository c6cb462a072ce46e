#include "trainers/frame/command_line.hpp"

#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <vector>

namespace trainer {

namespace {

/// "--batch-size=-1" becomes "--batch_size=-1".
std::string with_underscores(std::string argument) {
  if (argument.starts_with("--")) {
    const auto name_end = argument.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(argument.find('='), argument.size()));
    std::replace(argument.begin() + 2, name_end, '-', '_');
  }
  return argument;
}

}  // namespace

CLI::Validator between(double least, double most) {
  const std::string range =
      "[" + CLI::detail::to_string(least) + " - " + CLI::detail::to_string(most) + "]";
  const auto check = [least, most, range](std::string& text) -> std::string {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= least && value <= most) return "";
    return text + " is not within " + range;
  };
  return CLI::Validator(check, "FLOAT in " + range);
}

std::string parse(CLI::App& app, int argc, const char* const* argv) {
  app.set_config("--config", "", "read options from a TOML file; the command line wins");
  app.allow_config_extras(CLI::config_extras_mode::error);

  // CLI11 takes them from the back.
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(with_underscores(argv[i]));
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw ddprun::Error(ddprun::Errc::usage, std::string(error.what()) + " (" + app.get_name() +
                                                 " --help lists the options)");
  }
  return "";
}

}  // namespace trainer
