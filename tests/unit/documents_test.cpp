// Documents generated from the option table, and required content of the page for torchrun's users.
#include "launcher/cli/completions.hpp"
#include "launcher/cli/help_text.hpp"
#include "launcher/cli/option_table.hpp"
#include "launcher/config/man_page.hpp"
#include "launcher/config/schema.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/document.hpp"
#include <ddprun/worker_env.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

namespace documents_test {

using namespace ddprun;
using ddprun::test::read_source;

namespace {

/// Names (letters and underscores) after `start` and before `end` in the text.
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

/// Compares the file with `expected`, or writes it if scripts/generate_docs requests that.
void check_generated(const std::string& path, const std::string& expected) {
  const auto file = std::string(DDPRUN_SOURCE_DIR) + "/" + path;
  if (std::getenv("DDPRUN_GENERATE_DOCS") != nullptr) std::ofstream(file) << expected;
  CHECK_MESSAGE(read_source(path) == expected, path,
                " differs from launcher/cli/option_table.cpp; run scripts/generate_docs");
}

/// Replaces the generated part of this name in the man page.
void replace_part(std::string& page, const std::string& name, const std::string& part) {
  const auto begin = page.find("by scripts/generate_docs: " + name + "\n");
  REQUIRE_MESSAGE(begin != std::string::npos, name);
  const auto from = page.find('\n', begin) + 1;
  const auto end = page.find(".\\\" End of the generated part", from);
  REQUIRE_MESSAGE(end != std::string::npos, name);
  page.replace(from, end - from, part);
}

}  // namespace

TEST_SUITE("generated documents") {
  TEST_CASE("man page: generated options and keys match the option table") {
    auto page = read_source("docs/ddprun.1");
    replace_part(page, "options", man_options());
    replace_part(page, "keys", man_config_keys());
    check_generated("docs/ddprun.1", page);
  }

  TEST_CASE("completions: the installed scripts match the option table") {
    check_generated("docs/completions/ddprun.bash", bash_completion("ddprun"));
    check_generated("docs/completions/_ddprun", zsh_completion("ddprun"));
  }

  TEST_CASE("help: the text at 80 columns matches tests/golden/help.txt") {
    check_generated("tests/golden/help.txt", help_text(80));
  }

  TEST_CASE("schema: the text matches tests/golden/schema.json") {
    check_generated("tests/golden/schema.json", config_schema());
  }
}

TEST_SUITE("man page markup") {
  TEST_CASE("man page: generated text marks up options and variables and signals and literals") {
    CHECK(mdoc_text("See \"FILES\". With --tee=N, PET_TEE=1 and 'a b' ddprun ends at SIGINT.") ==
          "See\n.Sx FILES .\nWith\n.Fl -tee Ns = Ns Ar N ,\n.Ev PET_TEE Ns =1\nand\n.Ql a b\n.Nm\n"
          "ends at\n.Dv SIGINT .\n");
    CHECK(mdoc_text("One.\n\nTwo (see --tee).") == "One.\n.Pp\nTwo (see\n.Fl -tee ) .\n");
  }

  TEST_CASE("man page: every section that an option refers to exists") {
    const auto page = read_source("docs/ddprun.1");
    for (const auto& line : split(man_options(), '\n')) {
      if (!line.starts_with(".Sx ")) continue;
      const auto name = line.substr(4, line.find_last_not_of(" .,") - 3);
      CHECK_MESSAGE((page.find(".Ss " + name + "\n") != std::string::npos ||
                     page.find(".Sh " + name + "\n") != std::string::npos),
                    name);
    }
  }

  TEST_CASE("man page: ENVIRONMENT lists the torchrun options without a variable") {
    const auto page = read_source("docs/ddprun.1");
    std::set<std::string> without;
    for (const auto& entry : option_table()) {
      if (entry.is_own() || entry.name == "version") continue;
      if (entry.variables.empty()) without.emplace(entry.name);
    }
    const auto begin = page.find(".It Ev PET_NAME");
    const auto text = page.substr(begin, page.find("Flags take", begin) - begin);
    auto named = names_after(text, " -");
    named.erase("name");
    CHECK(named == without);
  }
}

TEST_SUITE("from torchrun") {
  TEST_CASE("from_torchrun.md: the table lists exactly the torchrun options") {
    std::string rows;
    for (const auto& line : split(read_source("docs/from_torchrun.md"), '\n')) {
      if (line.rfind("| `-", 0) == 0) rows += line.substr(0, line.find(" | ")) + "\n";
    }
    std::set<std::string> options;
    for (const auto& entry : option_table()) {
      if (!entry.is_own() && entry.name != "version") options.emplace(entry.name);
    }
    CHECK(names_after(rows, "--") == options);
  }

  TEST_CASE("from_torchrun.md: every PyTorch variable of a worker is listed") {
    const auto text = read_source("docs/from_torchrun.md");
    for (const auto& variable : to_environment(WorkerEnv{})) {
      const auto& name = variable.first;
      if (name.starts_with("DDPRUN_")) continue;
      CHECK_MESSAGE(text.find("`" + name + "`") != std::string::npos, name);
    }
  }
}

}  // namespace documents_test
