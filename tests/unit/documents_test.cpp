// The man page and the completions, which are written by hand, against the option table.
#include "launcher/cli/option_table.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/worker_env.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace documents_test {

using namespace ddprun;

namespace {

std::string document(const std::string& name) {
  std::ifstream file(std::string(DDPRUN_SOURCE_DIR) + "/docs/" + name);
  REQUIRE_MESSAGE(file.is_open(), name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The names (letters and underscores) that follow `start` in the text and are followed by `end`.
std::set<std::string> names_after(const std::string& text, const std::string& start,
                                  const std::string& end = "") {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  std::set<std::string> names;
  for (auto at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    const auto begin = at + start.size();
    const auto after = std::min(text.find_first_not_of(kLetters, begin), text.size());
    if (after > begin && text.compare(after, end.size(), end) == 0) {
      names.insert(text.substr(begin, after - begin));
    }
  }
  return names;
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
    CHECK(names_after(items, " -") == option_names(true, true));
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
        if (name.rfind("PET_", 0) == 0) variables.insert(name.substr(4));
      }
    }
    auto named = names_after(document("ddprun.1"), "PET_");
    named.erase("NAME");  // stands for any
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
      return names_after(text.substr(value, text.find('"', value) - value), "--");
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
    CHECK(names_after(options, "--", "=") == option_names(false, true));
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

TEST_SUITE("from torchrun") {
  TEST_CASE("the page for torchrun's users names each option in a table, and no other") {
    std::string rows;
    for (const auto& line : split(document("from_torchrun.md"), '\n')) {
      if (line.rfind("| `-", 0) == 0) rows += line.substr(0, line.find(" | ")) + "\n";
    }
    const auto named = names_after(rows, "--");
    for (const auto& name : option_names(true, true)) {
      CHECK_MESSAGE(named.contains(name), "docs/from_torchrun.md says nothing of --", name);
    }
    for (const auto& name : named) CHECK_MESSAGE(option_names(true, true).contains(name), name);
  }

  TEST_CASE("it names each variable that a worker finds") {
    const auto text = document("from_torchrun.md");
    for (const auto& variable : to_environment(WorkerEnv{})) {
      const auto& name = variable.first;
      if (name.starts_with("DDPRUN_")) continue;
      CHECK_MESSAGE(text.find("`" + name + "`") != std::string::npos, name);
    }
  }
}

}  // namespace documents_test
