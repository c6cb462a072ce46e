#include "trainers/frame/command_line.hpp"

#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <sstream>
#include <vector>

namespace trainer {

namespace {

constexpr std::size_t kHelpColumns = 80;

/// "--batch-size=-1" becomes "--batch_size=-1".
std::string with_underscores(std::string argument) {
  if (argument.starts_with("--")) {
    const auto name_end = argument.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(argument.find('='), argument.size()));
    std::replace(argument.begin() + 2, name_end, '-', '_');
  }
  return argument;
}

/// The words of `text` in lines of at most kHelpColumns, which begin at column `indent`.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::string result;
  std::size_t column = indent;
  for (std::string word; words >> word; column += word.size()) {
    if (column > indent && column + 1 + word.size() > kHelpColumns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
  }
  return result;
}

/// Lines that fit into a terminal, without the ranges of numbers, which errors name.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    constexpr std::size_t kIndent = 30;
    std::string text = "  " + make_option_name(option, is_positional);
    std::string description = option->get_description();
    if (option->get_type_size() != 0) {
      // "TEXT:{a,b}", "INT:INT in [1 - 2]".
      const std::string type = option->get_type_name();
      const std::size_t choices = type.find('{');
      text += " " + (choices != std::string::npos ? type.substr(choices)
                                                  : type.substr(0, type.find(':')));
      if (option->get_required()) description += " (required)";
      const std::string usual = option->get_default_str();
      if (!usual.empty()) description += " (default: " + usual + ")";
    }
    text += text.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ')
                                      : std::string(kIndent - text.size(), ' ');
    return text + wrapped(description, kIndent) + "\n";
  }
};

/// What is wrong in the file of options, whose name CLI11 leaves out.
std::string describe(const CLI::App& app, const CLI::ConfigError& error) {
  const std::string unknown = "INI was not able to parse ";
  const std::string what = error.what();
  return app.get_config_ptr()->as<std::string>() + ": " +
         (what.starts_with(unknown) ? "there is no option " + what.substr(unknown.size()) : what);
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
  app.formatter(std::make_shared<HelpFormatter>());

  // CLI11 takes them from the back.
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(with_underscores(argv[i]));
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ConfigError& error) {
    throw ddprun::Error(ddprun::Errc::usage, describe(app, error));
  } catch (const CLI::ParseError& error) {
    throw ddprun::Error(ddprun::Errc::usage, std::string(error.what()) + " (" + app.get_name() +
                                                 " --help lists the options)");
  }
  return "";
}

}  // namespace trainer
