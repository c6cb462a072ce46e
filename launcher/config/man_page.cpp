#include "launcher/config/man_page.hpp"

#include "launcher/config/key_table.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <vector>

namespace ddprun {

namespace {

constexpr std::size_t kManColumns = 80;
constexpr std::string_view kUpperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns the macro for "FILE" or "N", an argument, or "auto", a literal.
std::string value_macro(const std::string& value) {
  const bool is_word = value.find_first_of("abcdefghijklmnopqrstuvwxyz") == 0;
  return (is_word ? "Cm " : "Ar ") + value;
}

/// Returns "Fl -name Ns = Ns Ar N" for "--name=N".
std::string option_macro(const std::string& option) {
  const auto equals = std::min(option.find('='), option.size());
  const auto name = "Fl " + option.substr(1, equals - 1);
  if (equals == option.size()) return name;
  return name + " Ns = Ns " + value_macro(option.substr(equals + 1));
}

/// Returns "Ev NAME Ns =VALUE" for "NAME=VALUE".
std::string variable_macro(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos) return "Ev " + word;
  return "Ev " + word.substr(0, equals) + " Ns =" + word.substr(equals + 1);
}

bool is_variable(const std::string& word) {
  const auto name = word.substr(0, word.find('='));
  const bool is_upper =
      name.find_first_not_of(std::string(kUpperCase) + "_0123456789") == std::string::npos;
  return is_upper && (name.find('_') != std::string::npos || name == "TMPDIR" || name == "PATH");
}

bool is_signal(const std::string& word) {
  return word.starts_with("SIG") && word.size() > 3 &&
         word.find_first_not_of(kUpperCase) == std::string::npos;
}

/// Returns the macro for a word without punctuation; empty: plain text.
std::string macro_for(const std::string& word) {
  if (word.size() > 2 && word.starts_with("--")) return option_macro(word);
  if (word == "ddprun") return "Nm";
  if (is_signal(word)) return "Dv " + word;
  return is_variable(word) ? variable_macro(word) : std::string();
}

/// Writes one paragraph.
class MdocParagraph {
 public:
  explicit MdocParagraph(std::string_view text) : text_(text) {}

  std::string lines() {
    while (at_ < text_.size()) {
      if (text_[at_] == ' ') {
        ++at_;
      } else if (text_[at_] == '\'' || text_[at_] == '"') {
        add_quoted(text_[at_]);
      } else {
        add_word();
      }
    }
    end_line();
    return out_;
  }

 private:
  void add_quoted(char quote) {
    const auto end = text_.find(quote, at_ + 1);
    const std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    add_macro((quote == '"' ? "Sx " : "Ql ") + inside, rest_of_word());
  }

  void add_word() {
    auto word = rest_of_word();
    const auto last = word.find_last_not_of(".,;:)");
    const auto end = last == std::string::npos ? word.size() : last + 1;
    const auto macro = macro_for(word.substr(0, end));
    if (macro.empty()) {
      add_plain(word);
    } else {
      add_macro(macro, word.substr(end));
    }
  }

  std::string rest_of_word() {
    const auto end = std::min(text_.find(' ', at_), text_.size());
    std::string word(text_.substr(at_, end - at_));
    at_ = end;
    return word;
  }

  void add_plain(const std::string& word) {
    if (!line_.empty() && line_.size() + 1 + word.size() > kManColumns) end_line();
    line_ += (line_.empty() ? "" : " ") + word;
    if (word.ends_with('.')) end_line();  // in mdoc each sentence begins on a new line
  }

  void add_macro(const std::string& macro, const std::string& punctuation) {
    end_line();
    out_ += "." + macro;
    for (const char mark : punctuation) out_ += std::string(" ") + mark;
    out_ += "\n";
  }

  void end_line() {
    if (!line_.empty()) out_ += line_ + "\n";
    line_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string line_;
  std::string out_;
};

std::string man_heading(const OptionEntry& entry) {
  std::string text = ".It Fl ";
  if (entry.short_name != 0) text += std::string(1, entry.short_name) + " , ";
  text += "-" + std::string(entry.name);
  if (entry.is_flag()) return text + "\n";
  std::string macro;
  std::string separator = " ";
  for (const auto& value : split(entry.value_name, '|')) {
    const auto marked = value_macro(value);
    const auto own_macro = marked.substr(0, 3);
    text += separator + (own_macro == macro ? value : marked);
    macro = own_macro;
    separator = " | ";
  }
  return text + "\n";
}

std::string man_item(const OptionEntry& entry) {
  std::string text(entry.help);
  if (!entry.default_text.empty()) text += " Default: " + std::string(entry.default_text) + ".";
  if (!entry.man.empty()) text += " " + std::string(entry.man);
  return man_heading(entry) + mdoc_text(text);
}

/// Returns ".Va a , b ." over lines that end with a backslash.
std::string man_keys(ConfigSection section) {
  std::vector<std::string> keys;
  for (const auto& own : own_keys()) {
    if (own.section == section) keys.emplace_back(own.name);
  }
  for (const auto& option : option_table()) {
    if (option.section == section) keys.emplace_back(option.key());
  }
  const auto lines =
      wrap_text(".Va " + join(keys, " , ") + " .", static_cast<int>(kManColumns) - 2);
  return join(lines, " \\\n") + "\n";
}

}  // namespace

std::string mdoc_text(std::string_view text) {
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find("\n\n", begin), text.size());
    lines += (begin == 0 ? "" : ".Pp\n") + MdocParagraph(text.substr(begin, end - begin)).lines();
    begin = end + 2;
  }
  return lines;
}

std::string man_options() {
  std::string text;
  const OptionEntry* last = nullptr;
  for (const auto& entry : option_table()) {
    if (last == nullptr || last->group != entry.group) {
      text += (last == nullptr ? "" : ".El\n.Pp\n") + std::string(title_of(entry.group)) +
              ":\n.Bl -tag -width Ds\n";
    }
    last = &entry;
    text += man_item(entry);
  }
  return text + ".El\n";
}

std::string man_config_keys() {
  std::string text = ".Bl -tag -width Ds\n";
  for (const auto& section : section_names()) {
    text += ".It Va " + std::string(section.name) + "\n" + mdoc_text(section.help) +
            man_keys(section.section);
  }
  return text + ".El\n";
}

}  // namespace ddprun
