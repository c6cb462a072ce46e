#include "launcher/cli/option_table.hpp"

#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/make_plan.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/hosts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace option_table_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

TEST_SUITE("command line environment") {
  TEST_CASE("option table: arguments override PET_ variables") {
    const Variables variables = {{"PET_NPROC_PER_NODE", "3"}, {"PET_MAX_RESTARTS", "2"},
                                 {"PET_REDIRECTS", "0:1"},    {"PET_STANDALONE", "1"},
                                 {"PET_MODULE", "0"},         {"PET_RDZV_ID", "job"}};
    const auto options = options_of({"--max_restarts=5", "train.py"}, variables);
    CHECK(options.nproc_per_node.number == 3);
    CHECK(options.max_restarts == 5);
    CHECK(options.redirects.of(0) == 1);
    CHECK(options.redirects.of(1) == 0);
    CHECK(options.standalone);
    CHECK_FALSE(options.module);
    CHECK(options.rdzv_id == "job");
  }

  TEST_CASE("option table: an invalid value of a variable is reported with its name") {
    const auto problems =
        problems_of({"train.py"}, {{"PET_MAX_RESTARTS", "three"}, {"PET_NO_PYTHON", "yes"}});
    CHECK(contains(problems, "PET_MAX_RESTARTS=three: is not an integer"));
    CHECK(contains(problems, "PET_NO_PYTHON=yes: is not an integer (0 for off, 1 for on)"));
  }

  TEST_CASE("option table: an invalid value of an overridden variable is ignored") {
    CHECK(options_of({"--max_restarts=1", "x.py"}, {{"PET_MAX_RESTARTS", "three"}}).max_restarts ==
          1);
  }

  TEST_CASE("option table: an empty variable counts as unset") {
    CHECK(options_of({"x.py"}, {{"PET_MAX_RESTARTS", ""}, {"PET_STANDALONE", ""}}) ==
          options_of({"x.py"}));
  }

  TEST_CASE("option table: PET_ variables of options without a variable are ignored") {
    CHECK(options_of({"x.py"}, {{"PET_NUMA_BINDING", "node"},
                                {"PET_USE_ENV", "1"},
                                {"PET_LOGS_SPECS", "x"},
                                {"PET_EVENTS", "f"}}) == options_of({"x.py"}));
  }

  TEST_CASE("option table: --prefix overrides torchrun's prefix option and variable") {
    const std::string option = "--log-line-prefix-template=${rank}:";
    const std::string variable = "PET_LOG_LINE_PREFIX_TEMPLATE";
    const auto expected = options_of({"--prefix=${rank}:", "x.py"});
    CHECK(options_of({option, "x.py"}, {{variable, "a"}}) == expected);
    CHECK(options_of({"x.py"}, {{variable, "${rank}:"}}) == expected);
    CHECK(options_of({"--prefix=${rank}:", "--log_line_prefix_template=a", "x.py"}) == expected);
    CHECK(contains(problems_of({"x.py"}, {{variable, "a\n"}}), variable + "="));
    CHECK(contains(problems_of({"--log-line-prefix-template", "a\n", "x.py"}),
                   "--log_line_prefix_template="));
  }

  TEST_CASE("option table: PET_SHUTDOWN_TIMEOUT overrides TORCH_ELASTIC_SHUTDOWN_TIMEOUT") {
    const std::string older = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    CHECK(options_of({"x.py"}, {{older, "7"}}).shutdown_timeout == 7s);
    CHECK(options_of({"x.py"}, {{older, "7"}, {"PET_SHUTDOWN_TIMEOUT", "8"}}).shutdown_timeout ==
          8s);
    CHECK(options_of({"--shutdown_timeout=9", "x.py"}, {{older, "7"}}).shutdown_timeout == 9s);
    CHECK(contains(problems_of({"x.py"}, {{older, "soon"}}), older + "=soon"));
  }
}

TEST_SUITE("option table") {
  TEST_CASE("option table: names are unique and lower case and every option has help") {
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const auto& entry : option_table()) {
      CHECK(names.insert(entry.name).second);
      CHECK(entry.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
      CHECK_FALSE(entry.help.empty());
      CHECK(entry.help.back() == '.');
      if (entry.short_name != 0) CHECK(letters.insert(entry.short_name).second);
      CHECK(find_option(entry.name) == &entry);
    }
  }

  TEST_CASE("option table: no ddprun option makes a torchrun abbreviation ambiguous") {
    for (const auto& own : option_table()) {
      if (!own.is_own()) continue;
      for (const auto& entry : option_table()) {
        CHECK_MESSAGE((entry.is_own() || entry.name.rfind(own.name, 0) != 0), own.name, " hides ",
                      entry.name);
      }
    }
  }
}

TEST_SUITE("completion of a shell") {
  TEST_CASE("shell completion: the script completes the invoked command name") {
    const auto printed = [](const std::string& shell, const std::string& name) {
      const auto parsed = parse_command_line({"--print-completion", shell}, lookup_in({}), 80,
                                             {name, CompatMode::torchrun});
      return std::get<HelpText>(parsed).text;
    };
    CHECK(printed("bash", "torchrun").ends_with("complete -F _ddprun torchrun\n"));
    CHECK(printed("zsh", "torchrun").starts_with("#compdef torchrun\n"));
    CHECK(contains(printed("zsh", "ddprun"), "--nproc_per_node="));
  }

  TEST_CASE("shell completion: an unsupported shell is the only problem reported") {
    CHECK(problems_of({"--print_completion=tcsh"}) ==
          "ddprun: --print_completion=tcsh: must be bash or zsh\nTry 'ddprun --help'.\n");
  }
}

TEST_SUITE("hints") {
  TEST_CASE("hints: worker options of other launchers yield a suggestion") {
    for (const std::string word : {"--nprocs=2", "--num_processes", "--num-gpus=8", "-np"}) {
      CHECK_MESSAGE(contains(problems_of({word}), "did you mean --nproc_per_node?"), word);
    }
  }

  TEST_CASE("hints: a program taken for an option's value is not reported missing") {
    const auto problems = problems_of({"--max_restarts", "t.py"});
    CHECK(contains(problems, "--max_restarts=t.py: is not an integer"));
    CHECK_FALSE(contains(problems, "no program given"));
  }
}

TEST_SUITE("help text") {
  TEST_CASE("help: every option is listed and lines fit the terminal width") {
    for (const int columns : {60, 80, 100}) {
      const auto parsed = parse_command_line({"--help"}, lookup_in({}), columns);
      const auto text = std::get<HelpText>(parsed).text;
      for (const auto& entry : option_table()) {
        CHECK(contains(text, "--" + std::string(entry.name)));
      }
      std::size_t longest = 0;
      for (std::size_t begin = 0; begin < text.size();) {
        const auto end = text.find('\n', begin);
        longest = std::max(longest, end - begin);
        begin = end + 1;
      }
      CHECK(longest <= static_cast<std::size_t>(columns));
    }
  }
}

TEST_SUITE("command line robustness") {
  TEST_CASE("command line: random arguments yield a plan or problems or help") {
    std::mt19937 random(20261121);
    const auto any = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    const Strings pieces = {"--",   "-",   "=",    "-r",   "-t",  "-m",  "--r",
                            "0:3",  ",",   ":",    "[",    "]",   "'",   "\"",
                            "99",   "-1",  "1e9",  "nan",  "$",   "${",  "\xff",
                            "\x01", "SIG", "TERM", "auto", "gpu", "a=b", "9999999999999"};
    const auto text = [&] {
      std::string word;
      if (any(3) == 0) word = "--" + std::string(option_table()[any(option_table().size())].name);
      if (any(2) == 0) word += "=";
      for (std::size_t i = any(4); i > 0; --i) word += pieces[any(pieces.size())];
      return any(50) == 0 ? word + std::string(100'000, 'x') : word;
    };
    auto bare = host({}, {{"PATH", ""}});
    bare.cpus.clear();
    int plans = 0;
    for (int round = 0; round < 20'000; ++round) {
      const bool has_variables = any(2) == 0;
      Strings arguments;
      for (std::size_t i = any(any(2) == 0 ? 2 : 6); i > 0; --i) arguments.push_back(text());
      if (any(2) == 0) arguments.insert(arguments.end(), {"-m", text(), text()});
      const EnvironmentLookup environment = [&](const std::string&) -> std::optional<std::string> {
        if (!has_variables || any(8) != 0) return std::nullopt;
        return text();
      };
      const auto parsed = parse_command_line(arguments, environment);
      if (const auto* problem = std::get_if<UsageProblem>(&parsed)) {
        REQUIRE_FALSE(problem->problems.empty());
      } else if (const auto* options = std::get_if<LaunchOptions>(&parsed)) {
        std::vector<std::string> problems;
        const auto plan = make_plan(*options, any(2) == 0 ? host() : HostFacts(bare), problems);
        if (problems.empty()) {
          REQUIRE_FALSE(plan.workers.empty());
          REQUIRE_FALSE(describe_plan(plan).empty());
          ++plans;
        }
      }
    }
    // Otherwise the arguments are too random to test the steps after parsing.
    CHECK(plans > 200);
  }
}

}  // namespace option_table_test
