// The man page and the completions, which are written by hand, against the option table.
#include "launcher/cli/option_table.hpp"
#include "rendezvous/base/text.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace ddprun;

namespace {

std::string document(const std::string& name) {
  std::ifstream file(std::string(DDPRUN_SOURCE_DIR) + "/docs/" + name);
  REQUIRE_MESSAGE(file.is_open(), name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

std::set<std::string> option_names(bool with_flags, bool with_values) {
  std::set<std::string> names;
  for (const auto& entry : option_table()) {
    if (entry.is_flag() ? with_flags : with_values) names.emplace(entry.name);
  }
  return names;
}

/// The words that an option's value may be, such as "auto"; not the placeholders.
std::vector<std::string> fixed_words(const OptionEntry& entry) {
  std::vector<std::string> words;
  for (const auto& word : split(entry.value_name, '|')) {
    if (!word.empty() && word[0] >= 'a' && word[0] <= 'z') words.push_back(word);
  }
  return words;
}

/// The first line that contains `part`.
std::string line_with(const std::string& text, const std::string& part) {
  for (const auto& line : split(text, '\n')) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

}  // namespace

TEST_SUITE("man page") {
  TEST_CASE("it has an item for each option of the table and for no other") {
    std::string items;
    for (const auto& line : split(document("ddprun.1"), '\n')) {
      if (line.rfind(".It Fl", 0) == 0) items += line + "\n";
    }
    CHECK(matches(items, "(?:Fl|,) -([a-z_]+)") == option_names(true, true));
    for (const auto& entry : option_table()) {
      const auto item = line_with(items, " -" + std::string(entry.name));
      if (entry.short_name != 0) {
        CHECK(item.rfind(std::string(".It Fl ") + entry.short_name + " , -", 0) == 0);
      }
      for (const auto& word : fixed_words(entry)) {
        CHECK_MESSAGE(item.find(word) != std::string::npos, item, " lacks ", word);
      }
    }
  }

  TEST_CASE("it names the environment variables that give defaults, and no others") {
    std::set<std::string> variables;
    for (const auto& entry : option_table()) {
      if (entry.variables.empty()) continue;
      for (const auto& name : split(entry.variables, ' ')) {
        if (name.rfind("PET_", 0) == 0) variables.insert(name);
      }
    }
    auto named = matches(document("ddprun.1"), "(PET_[A-Z_]+)");
    named.erase("PET_NAME");  // stands for any
    CHECK(named == variables);
    CHECK(document("ddprun.1").find("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") != std::string::npos);
  }
}

TEST_SUITE("completions") {
  TEST_CASE("bash knows each option and whether it takes a value") {
    const auto text = document("completions/ddprun.bash");
    const auto assigned = [&](const std::string& name) {
      const auto begin = text.find("local " + name + "=\"");
      REQUIRE(begin != std::string::npos);
      const auto value = text.find('"', begin) + 1;
      return matches(text.substr(value, text.find('"', value) - value), "--([a-z_]+)");
    };
    CHECK(assigned("flags") == option_names(true, false));
    CHECK(assigned("options") == option_names(false, true));
    for (const auto& entry : option_table()) {
      for (const auto& word : fixed_words(entry)) {
        const auto line = line_with(text, "__" + std::string(entry.name) + ")");
        CHECK_MESSAGE(line.find(word) != std::string::npos, entry.name, " lacks ", word);
      }
    }
  }

  TEST_CASE("zsh knows each option and whether it takes a value") {
    const auto text = document("completions/_ddprun");
    std::string options;
    for (const auto& line : split(text, '\n')) {
      if (line.rfind("  '", 0) == 0) options += line + "\n";
    }
    CHECK(matches(options, "--([a-z_]+)=") == [] {
      auto names = option_names(false, true);
      names.insert("local_rank");  // in a description
      return names;
    }());
    for (const auto& entry : option_table()) {
      const auto name = "--" + std::string(entry.name);
      CHECK_MESSAGE(options.find(name) != std::string::npos, name);
      for (const auto& word : fixed_words(entry)) {
        CHECK_MESSAGE(line_with(options, name + "=").find(word) != std::string::npos, name, " ",
                      word);
      }
    }
  }
}
