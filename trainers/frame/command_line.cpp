#include "trainers/frame/command_line.hpp"

#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace trainer {

namespace {

constexpr std::size_t kHelpColumns = 80;
constexpr std::size_t kHelpColumnsMin = 50;

/// "--batch-size=-1" becomes "--batch_size=-1".
std::string with_underscores(std::string argument) {
  if (argument.starts_with("--")) {
    const auto name_end = argument.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min(argument.find('='), argument.size()));
    std::replace(argument.begin() + 2, name_end, '-', '_');
  }
  return argument;
}

/// Returns the width of the terminal, or COLUMNS if the output is not a terminal; at most
/// kHelpColumns, and at least enough for an option and a few words.
std::size_t help_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    const char* value = std::getenv("COLUMNS");
    const int columns = value == nullptr ? 0 : std::atoi(value);
    return columns <= 0
               ? kHelpColumns
               : std::clamp(static_cast<std::size_t>(columns), kHelpColumnsMin, kHelpColumns);
  }
  return std::clamp(std::size_t{size.ws_col}, kHelpColumnsMin, kHelpColumns);
}

/// Wraps `text` to lines of at most `columns` columns, with an indentation of `indent`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  std::istringstream words(text);
  std::string result;
  std::size_t column = indent;
  for (std::string word; words >> word; column += word.size()) {
    if (column > indent && column + 1 + word.size() > columns) {
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

/// CLI11 2.6 adds a space to lines of the description.
std::string without_trailing_spaces(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return result;
}

/// Wraps lines to the terminal, and omits the ranges of numbers, which errors contain.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0, help_columns()) + "\n";
  }

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
    return text + wrapped(description, kIndent, help_columns()) + "\n";
  }
};

/// Returns the error in the options file with the file's name, which CLI11 omits.
std::string describe(const CLI::App& app, const CLI::ConfigError& error) {
  const std::string unknown = "INI was not able to parse ";
  const std::string what = error.what();
  return app.get_config_ptr()->as<std::string>() + ": " +
         (what.starts_with(unknown) ? "there is no option " + what.substr(unknown.size()) : what);
}

std::string where_to_look(const CLI::App& app) {
  return " (" + app.get_name() + " --help lists the options)";
}

/// CLI11 lists unexpected arguments in reverse order.
std::string describe_unexpected(const CLI::App& app) {
  std::string list;
  const auto extras = app.remaining();
  for (const auto& extra : extras) list += (list.empty() ? "" : ", ") + extra;
  return (extras.size() == 1 ? "unexpected argument: " : "unexpected arguments: ") + list +
         where_to_look(app);
}

/// `type`: name in the help; `kind`: name in errors.
template <typename Number>
CLI::Validator range(const std::string& type, const std::string& kind, Number least, Number most) {
  const std::string bounds = CLI::detail::to_string(least) + " to " + CLI::detail::to_string(most);
  const auto check = [=](std::string& text) -> std::string {
    Number value{};
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= least && value <= most) return "";
    return text + " is not " + kind + " from " + bounds;
  };
  return CLI::Validator(check, type + " in [" + bounds + "]");
}

}  // namespace

CLI::Validator between(double least, double most) {
  return range<double>("FLOAT", "a number", least, most);
}

CLI::Validator whole(std::int64_t least, std::int64_t most) {
  return range<std::int64_t>("INT", "a whole number", least, most);
}

std::string parse(CLI::App& app, int argc, const char* const* argv) {
  app.set_config("--config", "", "read options from a TOML file; the command line wins")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.formatter(std::make_shared<HelpFormatter>());

  // CLI11 expects arguments in reverse order.
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) arguments.push_back(with_underscores(argv[i]));
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return without_trailing_spaces(app.help());
  } catch (const CLI::ConfigError& error) {
    throw ddprun::Error(ddprun::Errc::usage, describe(app, error));
  } catch (const CLI::ExtrasError&) {
    throw ddprun::Error(ddprun::Errc::usage, describe_unexpected(app));
  } catch (const CLI::ParseError& error) {
    throw ddprun::Error(ddprun::Errc::usage, error.what() + where_to_look(app));
  }
  return "";
}

}  // namespace trainer
