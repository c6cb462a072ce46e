// Parts of configuration files: names of several nodes, references to variables, shapes.
#include "launcher/config/interpolation.hpp"
#include "launcher/config/key_table.hpp"
#include "launcher/config/node_names.hpp"
#include "launcher/plan/macros.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/command_lines.hpp"

#include <doctest/doctest.h>

namespace config_values_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

std::string text_of(const Parsed<std::string>& parsed) {
  const auto* problem = std::get_if<ValueProblem>(&parsed);
  return problem == nullptr ? std::get<std::string>(parsed) : "problem: " + problem->text;
}

std::string names_in(const std::string& text) {
  const auto names = expand_node_names(text);
  const auto* problem = std::get_if<ValueProblem>(&names);
  return problem == nullptr ? join(std::get<std::vector<std::string>>(names), " ")
                            : "problem: " + problem->text;
}

std::string replaced(const std::string& text, TextUse use = TextUse::value) {
  return text_of(interpolate(
      text, lookup_in({{"A", "one"}, {"EMPTY", ""}, {"PRICE", "5$"}, {"node.name", "n1"}}), use));
}

}  // namespace

TEST_SUITE("node names") {
  TEST_CASE("node names: a range expands to numbers padded like its first number") {
    CHECK(names_in("login") == "login");
    CHECK(names_in("gpu[1-3]") == "gpu1 gpu2 gpu3");
    CHECK(names_in("gpu[008-010].lan") == "gpu008.lan gpu009.lan gpu010.lan");
    CHECK(names_in("n[1,7,9-10],login") == "n1 n7 n9 n10 login");
    CHECK(names_in("r[1-2]n[1-2]") == "r1n1 r1n2 r2n1 r2n2");
    CHECK(names_in("10.0.0.[1-2]") == "10.0.0.1 10.0.0.2");
    CHECK(names_in("[3-4]") == "3 4");
    CHECK(names_in("fe80::1%eth0,gpu_1.LAN-x") == "fe80::1%eth0 gpu_1.LAN-x");
  }

  TEST_CASE("node names: an invalid list is rejected with the reason") {
    CHECK(names_in("") == "problem: has an empty name");
    CHECK(names_in("a,,b") == "problem: has an empty name");
    CHECK(names_in("a[1-2") == "problem: has an unmatched '['");
    CHECK(names_in("a[x]") ==
          "problem: has 'x' in brackets, which is neither a number nor a range");
    CHECK(contains(names_in("a[]"), "neither a number nor a range"));
    CHECK(contains(names_in("a[1-2-3]"), "neither a number nor a range"));
    CHECK(names_in("a[3-1]") == "problem: has a range whose start exceeds its end: 3-1");
    CHECK(names_in("a[01-100]") == "problem: has a range whose ends differ in width: 01-100");
    CHECK(names_in("a]") ==
          "problem: has ']' in a name; names consist of letters (A to Z), digits and - . _ : %");
  }

  TEST_CASE("node names: names with shell characters or a leading dash are rejected") {
    const std::pair<const char*, const char*> table[] = {{"a b", "' '"},
                                                         {"${HOST}", "'$'"},
                                                         {"h2;touch", "';'"},
                                                         {"a|b", "'|'"},
                                                         {"a`b`", "'`'"},
                                                         {"a&b", "'&'"},
                                                         {"a<b", "'<'"},
                                                         {"a(b)", "'('"},
                                                         {"a\nb", "'\n'"},
                                                         {"a\x1b[1]b", "'\\x1b'"},
                                                         {"a\u009bb", "'\\xc2\\x9b'"},
                                                         {"b\u00fccher", "'\u00fc'"},
                                                         {"a\xff", "'\\xff'"},
                                                         {"user@host", "'@'"},
                                                         {"a/b", "'/'"},
                                                         {"a=b", "'='"},
                                                         {"a\\b", "'\\'"},
                                                         {"a*", "'*'"},
                                                         {"~a", "'~'"}};
    for (const auto& [text, character] : table) {
      CHECK(contains(names_in(text), "has " + std::string(character) + " in a name"));
    }
    for (const char* text : {"-oProxyCommand", "a,-b", "-[1-2]"}) {
      CHECK(names_in(text) == "problem: has a name that begins with '-'");
    }
  }

  TEST_CASE("node names: a list of more than 16384 names is rejected") {
    CHECK(std::get<std::vector<std::string>>(expand_node_names("n[1-16384]")).size() ==
          kNodeNamesMax);
    for (const char* text : {"n[1-16385]", "n[1-999999999]", "n[0-9999,10000-19999]",
                             "n[1-200]m[1-200]", "n[1-16384],m"}) {
      CHECK(names_in(text) == "problem: stands for more than 16384 names");
    }
    CHECK(contains(names_in("n[1-9999999999]"), "neither a number nor a range"));
  }
}

TEST_SUITE("references to variables") {
  TEST_CASE("config references: a reference yields a variable's value or a default or a problem") {
    CHECK(replaced("plain") == "plain");
    CHECK(replaced("<${A}>") == "<one>");
    CHECK(replaced("${node.name}-${A}") == "n1-one");
    CHECK(replaced("${B:-two}") == "two");
    CHECK(replaced("${A:-two}") == "one");
    CHECK(replaced("${B:-}") == "");
    CHECK(replaced("${EMPTY}") == "");
    CHECK(replaced("${EMPTY:-two}") == "two");
    CHECK(replaced("$${A} costs 5$$") == "${A} costs 5$");
    CHECK(replaced("${B:?set it to the job's number}") ==
          "problem: B is not set: set it to the job's number");
    CHECK(contains(replaced("${B}"), "problem: B is not set; ${B:-TEXT} has a default"));
    // Values are not expanded again.
    CHECK(replaced("${PRICE}{A}") == "5${A}");
  }

  TEST_CASE("config references: a malformed reference is rejected") {
    CHECK(contains(replaced("$A"), "neither ${NAME} nor $$"));
    CHECK(contains(replaced("100$"), "neither ${NAME} nor $$"));
    CHECK(contains(replaced("${A"), "has an unmatched '${'"));
    CHECK(contains(replaced("${}"), "does not begin with a variable's name"));
    CHECK(contains(replaced("${1A}"), "does not begin with a variable's name"));
    CHECK(contains(replaced("${A:+x}"), "neither :- with a default nor :? with a message"));
    CHECK_FALSE(reference_problem("${B}"));
    CHECK(contains(reference_problem("${B").value(), "unmatched '${'"));
  }

  TEST_CASE("config references: a dollar in a variable's value does not start a macro") {
    const auto argument = [](const std::string& text) {
      return expand_macros(replaced(text, TextUse::program_argument), 3);
    };
    CHECK(argument("--out=${A}/${local_rank}") == "--out=one/3");
    CHECK(argument("$${local_rank}") == "${local_rank}");
    CHECK(argument("${PRICE}local_rank") == "5$local_rank");
    CHECK(argument("$$$$") == "$$");
  }

  TEST_CASE("config references: an expanded text has a limited length") {
    const auto lookup = lookup_in({{"A", std::string(kInterpolatedBytesMax / 2, 'x')}});
    CHECK(std::get<std::string>(interpolate("${A}${A}", lookup)).size() ==
          kInterpolatedBytesMax - 1);
    CHECK(contains(text_of(interpolate("${A}${A}${A}", lookup)), "becomes longer than 131071"));
  }
}

TEST_SUITE("configuration keys") {
  TEST_CASE("configuration keys: an option's path and type follow from the option table") {
    const auto shape = [](const char* name) {
      return describe_shape(shape_of(*find_option(name)));
    };
    CHECK(shape("module") == "true or false");
    CHECK(shape("max_restarts") == "a number");
    CHECK(shape("nproc_per_node") == "a number or one of auto, cpu, gpu");
    CHECK(shape("exit_code") == "one of torchrun, worker");
    CHECK(shape("log_dir") == "a string");
    CHECK(shape("signals_to_handle") == "a string or an array");
    CHECK(shape("rdzv_conf") == "a string or an object");
    CHECK(shape("redirects") == "a number or a string or an object");
    CHECK(shape("nnodes") == "a number or a string");
    CHECK(find_option("max_restarts")->section == ConfigSection::restart);
    CHECK(find_option("nproc_per_node")->section == ConfigSection::node);
    CHECK(find_option("tee")->section == ConfigSection::logs);
    CHECK(find_option("help")->section == ConfigSection::none);
  }

  TEST_CASE("configuration keys: only the listed options cannot be set in a file") {
    std::vector<std::string> without;
    for (const auto& option : option_table()) {
      if (option.section == ConfigSection::none) without.emplace_back(option.name);
      const auto described = describe_shape(shape_of(option));
      CHECK_MESSAGE(!described.empty(), option.name);
    }
    CHECK(without == std::vector<std::string>{"node_rank", "config", "node_name", "ssh", "dry_run",
                                              "help", "print_completion", "version"});
  }
}

}  // namespace config_values_test
