// `ddprun config ...`: the meaning of a file, its schema, and files made from hostfiles and
// arguments.
#include "launcher/config/config_command.hpp"

#include "launcher/config/convert.hpp"
#include "launcher/config/schema.hpp"
#include "launcher/plan/macros.hpp"
#include "tests/support/config_texts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace config_command_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

std::optional<ConfigAnswer> command(const Strings& arguments, const Variables& variables = {},
                                    const Invocation& invocation = {}) {
  const ConfigLoader loader = [&](const ConfigRequest& request) {
    return resolved(R"({"version": 1, "job": {"command": ["a", "b c"]},
      "defaults": {"nproc_per_node": 2, "environment": {"A": "1", "B": null}},
      "nodes": [{"name": "n[1-2]"}]})",
                    value_of(request.given, "node_name") ? 1 : 0, variables);
  };
  return run_config_command(arguments, lookup_in(variables), {.config = loader}, invocation);
}

/// Returns the output, or the problems.
std::string answer(const Strings& arguments, const Variables& variables = {}) {
  const auto given = command(arguments, variables);
  REQUIRE(given);
  return given->problems.empty() ? given->text : describe({given->problems});
}

std::string many_lines(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

std::string made_of(const std::variant<ConvertedFile, UsageProblem>& converted) {
  const auto* problem = std::get_if<UsageProblem>(&converted);
  return problem == nullptr ? std::get<ConvertedFile>(converted).text
                            : join(problem->problems, "\n");
}

}  // namespace

TEST_SUITE("config command") {
  TEST_CASE("config command: 'config' is a subcommand only as the first argument of ddprun") {
    CHECK_FALSE(command({}));
    CHECK_FALSE(command({"./config", "check"}));
    CHECK_FALSE(command({"--", "config", "check"}));
    CHECK_FALSE(command({"--module", "config"}));
    CHECK_FALSE(command({"config", "schema"}, {}, {"torchrun", CompatMode::torchrun}));
    CHECK(contains(answer({"config"}), "a program called config is run as ./config"));
    CHECK(contains(answer({"config"}), "config: needs one of check, convert and schema"));
    CHECK(
        contains(answer({"config", "chek", "f"}), "config chek: must be check, convert or schema"));
    CHECK(contains(answer({"config", "chek", "f"}), "did you mean check?"));
  }

  TEST_CASE("config command: help is wrapped at the terminal's width") {
    const auto help = run_config_command({"config", "--help"}, lookup_in({}), {}, {}, {}, 50);
    REQUIRE(help);
    for (const auto& line : split(help->text, '\n')) CHECK(line.size() <= 50);
    CHECK(contains(help->text, "\n           Print the JSON Schema of configuration\n           "));
  }

  TEST_CASE("config command: --help before a program shows the same help for each subcommand") {
    for (const Strings& arguments :
         {Strings{"config", "--help"}, Strings{"config", "-h"},
          Strings{"config", "check", "--help"}, Strings{"config", "check", "c.json", "--help"},
          Strings{"config", "schema", "-h"}, Strings{"config", "convert", "--help"}}) {
      CHECK(answer(arguments).rfind("Usage: ddprun config check FILE", 0) == 0);
    }
    CHECK(contains(answer({"config", "schema", "x"}), "config schema: takes no arguments"));
    // After the program it belongs to the program.
    CHECK(contains(answer({"config", "check", "c.json", "x", "--help"}), "\"--help\"]"));
  }

  TEST_CASE("config command: check shows each effective value with its source") {
    const auto text =
        answer({"config", "check", "c.json", "--node_name=n2", "--max_restarts=4", "x"},
               {{"PET_TEE", "3"}});
    CHECK(contains(text, "this machine is node n2 (2 of 2) of c.json"));
    CHECK(contains(text, "max_restarts = 4                              --max_restarts=4\n"));
    CHECK(contains(text, "tee = 3                                       PET_TEE=3\n"));
    CHECK(contains(text, "  c.json:2:38: defaults.nproc_per_node\n"));
    CHECK(contains(text, "environment: A=1\nenvironment: without B\ncommand: [\"x\"]\n"));
    CHECK(contains(answer({"config", "check", "c.json"}), "command: [\"a\", \"b c\"]"));
  }

  TEST_CASE("config command: check reports a missing file and invalid options") {
    CHECK(contains(answer({"config", "check"}), "needs a file as its first argument"));
    CHECK(contains(answer({"config", "check", "c.json", "--tee=9"}), "--tee=9: is neither"));
    CHECK(contains(answer({"config", "check", "c.json", "--te"}), "--te"));
  }

  TEST_CASE("config command: the schema has exactly the keys that a file accepts") {
    CHECK(answer({"config", "schema"}) == config_schema());
    const auto document = parse_json(config_schema());
    REQUIRE(document.problems.empty());
    const auto& sections = document.root.find("properties")->value;
    for (const auto& section : section_names()) {
      const auto& object = sections.find(section.name)->value;
      std::size_t keys = 0;
      for (const auto& option : option_table()) {
        const bool is_here = option.section == section.section;
        keys += is_here ? 1 : 0;
        CHECK((object.find("properties")->value.find(option.key()) != nullptr) == is_here);
      }
      for (const auto& own : own_keys()) keys += own.section == section.section ? 1 : 0;
      CHECK(object.find("properties")->value.members.size() == keys);
      CHECK(object.find("additionalProperties")->value.text == "false");
    }
  }

  TEST_CASE("config command: the schema has the same number ranges as the options") {
    const auto document = parse_json(config_schema());
    const auto& sections = document.root.find("properties")->value;
    int numbers = 0;
    for (const auto& option : option_table()) {
      if (option.section == ConfigSection::none || !shape_of(option).takes_number) continue;
      CAPTURE(option.name);
      const auto takes = [&](const std::string& text) {
        LaunchOptions scratch;
        return !option.apply(scratch, text);
      };
      const auto section =
          std::find_if(section_names().begin(), section_names().end(),
                       [&](const auto& each) { return each.section == option.section; });
      const auto& object = sections.find(section->name)->value;
      const auto& schema = object.find("properties")->value.find(option.key())->value;
      const auto& number = schema.find("anyOf")->value.elements.at(0);
      CHECK(takes("1.5") == (number.find("type")->value.text == "number"));
      const int least = std::stoi(number.find("minimum")->value.text);
      CHECK(takes(std::to_string(least)));
      CHECK(!takes(std::to_string(least - 1)));
      const int most = std::stoi(number.find("maximum")->value.text);
      CHECK(takes(std::to_string(most)));
      CHECK(!takes(std::to_string(most + 1)));
      ++numbers;
    }
    CHECK(numbers > 5);
  }

  TEST_CASE("config command: check shows the command to run or the reason why it cannot run") {
    const ConfigLoader loader = [](const ConfigRequest&) {
      return resolved(R"({"version": 1, "job": {"command": ["a", "b"]}})", 0, {});
    };
    using Summary = std::variant<std::string, UsageProblem>;
    const auto checked = [&](const PlanSummary& summarize) {
      const auto given =
          run_config_command({"config", "check", "c.json"}, lookup_in({{"PET_NNODES", "1:2"}}),
                             {.config = loader}, {}, {.here = summarize});
      REQUIRE(given);
      return *given;
    };
    const auto run = checked([](const LaunchOptions& options) -> Summary {
      return "1 worker runs: " + options.program + " " + options.program_arguments.at(0) + "\n";
    });
    CHECK(run.text.ends_with("1 worker runs: a b\n"));
    CHECK(run.problems.empty());
    const auto refused = checked([](const LaunchOptions&) -> Summary {
      return UsageProblem{{"a: no such program", "--nnodes=1:2: not so"}};
    });
    CHECK(contains(refused.text, "command: [\"a\", \"b\"]"));
    CHECK(refused.problems == Strings{"a: no such program", "PET_NNODES=1:2: not so"});
  }

  TEST_CASE("config command: check accepts a file without a program") {
    const ConfigLoader loader = [](const ConfigRequest&) {
      return resolved(R"({"version": 1})", 0, {});
    };
    const PlanSummary summarize =
        [](const LaunchOptions& options) -> std::variant<std::string, UsageProblem> {
      CHECK(options.program.empty());
      CHECK_FALSE(options.needs_program);
      return std::string("2 workers\n");
    };
    const auto given = run_config_command({"config", "check", "c.json"}, lookup_in({}),
                                          {.config = loader}, {}, {.here = summarize});
    REQUIRE(given);
    CHECK(given->text.ends_with("no command: a program must be given\n2 workers\n"));
  }
}

TEST_SUITE("converting to a configuration file") {
  TEST_CASE("config convert: several nodes get a secret file and a note how to create it") {
    const auto converted = convert_hostfile("hosts", "a\nb\n");
    const auto& notes = std::get<ConvertedFile>(converted).notes;
    REQUIRE(notes.size() == 1);
    CHECK(contains(notes[0], "'ddprun keygen run.key' and copy it to all nodes"));
    CHECK(
        contains(made_of(convert_arguments({"--nnodes=2", "x"})), "\"secret_file\": \"run.key\""));
    CHECK_FALSE(contains(made_of(convert_arguments({"x"})), "security"));
    for (const auto* security : {"--security=open", "--secret_file=my.key"}) {
      const auto own = convert_arguments({"--nnodes=2", security, "x.py"});
      CHECK_FALSE(contains(made_of(own), "run.key"));
      CHECK(std::get<ConvertedFile>(own).notes.empty());
    }
    CHECK(std::get<ConvertedFile>(convert_hostfile("hosts", "a\n")).notes.empty());
  }

  TEST_CASE("config convert: slots of a hostfile become workers per node") {
    const auto made = made_of(convert_hostfile("hosts",
                                               "# cluster\n\nme@gpu1 slots=4 max_slots=8\n"
                                               "gpu2 slots=2 # half\r\ngpu3:3\ngpu4\n"));
    CHECK(made ==
          "{\n  \"version\": 1,\n  \"nodes\": [\n"
          "    {\"name\": \"gpu1\", \"nproc_per_node\": 4},\n"
          "    {\"name\": \"gpu2\", \"nproc_per_node\": 2},\n"
          "    {\"name\": \"gpu3\", \"nproc_per_node\": 3},\n"
          "    {\"name\": \"gpu4\", \"nproc_per_node\": 1}\n  ],\n"
          "  \"security\": {\"secret_file\": \"run.key\"}\n}\n");
    CHECK(config_of(made).nodes.size() == 4);
  }

  TEST_CASE("config convert: lines of a host without slots are counted like in PBS") {
    const auto made = made_of(convert_hostfile("nodes", "a\na\nb\na\nb:2\n"));
    CHECK(made == "nodes:5: b is already listed on line 3");
    CHECK(contains(made_of(convert_hostfile("nodes", "a\na\nb\na\n")),
                   R"([{"name": "a", "nproc_per_node": 3}, {"name": "b", "nproc_per_node": 1}])"));
  }

  TEST_CASE("config convert: a program that torchrun starts with Python keeps its interpreter") {
    const auto converted = convert_arguments({"train", "--lr=1"});
    const auto& file = std::get<ConvertedFile>(converted);
    CHECK(values_of(file.text).command == Strings{"python3", "-u", "train", "--lr=1"});
    REQUIRE(file.notes.size() == 1);
    CHECK(contains(file.notes[0], "train is run by python3"));
    for (const Strings& arguments :
         {Strings{"train.py"}, Strings{"-m", "train"}, Strings{"--no_python", "train"}}) {
      const auto other = convert_arguments(arguments);
      CHECK(values_of(std::get<ConvertedFile>(other).text).command == Strings{arguments.back()});
      CHECK(std::get<ConvertedFile>(other).notes.empty());
    }
  }

  TEST_CASE("config convert: each invalid line of a hostfile is reported with its number") {
    CHECK(made_of(convert_hostfile("hosts", "a slots=x\na slot=1\nb\nb slots=2\nc d\nb\n")) ==
          "hosts:1: the number of slots 'x' is not an integer from 1 to 1024\n"
          "hosts:2: unknown key 'slot'; valid are slots and max_slots\n"
          "hosts:4: b is already listed on line 3\n"
          "hosts:5: 'd' is not of the form key=value");
    CHECK(contains(made_of(convert_hostfile("hosts", many_lines("a", 1025))),
                   "hosts:1025: a is listed on more than 1024 lines"));
    CHECK(made_of(convert_hostfile("hosts", "# nobody\n")) == "hosts: names no host");
    CHECK(
        made_of(convert_hostfile("hosts", "a\n\nb$c\nd[1-2]\nd2 slots=1\n")) ==
        "hosts:3: the name 'b$c' has '$' in a name; names consist of letters (A to Z), digits and "
        "- . _ : %\n"
        "hosts:5: d2 is already listed on line 4");
    CHECK(made_of(convert_hostfile("hosts", "a\nb[1-16384]\n")) ==
          "hosts:2: there are more than 16384 hosts");
  }

  TEST_CASE("config convert: a torchrun command line becomes an equivalent file") {
    const Strings arguments = {"--nproc_per_node=gpu",
                               "--nnodes=1:4",
                               "--security=open",
                               "--max-restarts",
                               "3",
                               "--rdzv_endpoint=a:1",
                               "--rdzv_id=$job",
                               "-r",
                               "0:1",
                               "-m",
                               "train.main",
                               "--lr=0.1",
                               "$$x",
                               "$HOME",
                               "${local_rank}",
                               "$local_rank",
                               "$local_ranks"};
    const auto made = made_of(convert_arguments(arguments));
    const auto values = values_of(made);
    LaunchOptions from_file;
    CHECK(apply_values({values.options, {}, {}, {}}, from_file).empty());
    auto expected = options_of(arguments);
    CHECK(values.command.front() == expected.program);
    const Strings rest(values.command.begin() + 1, values.command.end());
    // The same after the replacement of the launcher's own macros.
    const auto& wanted = expected.program_arguments;
    REQUIRE(rest.size() == wanted.size());
    for (std::size_t i = 0; i < rest.size(); ++i) {
      CHECK(expand_macros(rest[i], 3) == expand_macros(wanted[i], 3));
    }
    expected.program.clear();
    expected.program_arguments.clear();
    from_file.origins.clear();
    CHECK(from_file == expected);
  }

  TEST_CASE("config convert: a value that differs between nodes is omitted with a note") {
    const auto converted =
        convert_arguments({"--nnodes=2", "--node_rank=1", "--security=open", "x.py"});
    const auto& file = std::get<ConvertedFile>(converted);
    CHECK_FALSE(contains(file.text, "rank"));
    REQUIRE(file.notes.size() == 1);
    CHECK(contains(file.notes[0], "--node_rank=1 is omitted, "));
  }

  TEST_CASE("config convert: options that are invalid or not allowed in a file are rejected") {
    CHECK(contains(made_of(convert_arguments({"--dry_run", "x"})),
                   "--dry_run: is not allowed in a configuration file"));
    CHECK(contains(made_of(convert_arguments({"--tee=9"})), "--tee=9: is neither"));
    CHECK(made_of(convert_arguments({})) == "{\n  \"version\": 1\n}\n");
    CHECK(contains(answer({"config", "convert", "torchrun", "--tee=3", "x"}), "\"tee\": 3"));
    CHECK(contains(answer({"config", "convert", "what"}), "config convert: needs 'hostfile FILE'"));
    CHECK(
        contains(answer({"config", "convert", "hostfile", "/no/such"}), "/no/such: No such file"));
  }
}

TEST_SUITE("example configurations") {
  TEST_CASE("example configurations: each file is valid for each of its nodes") {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_SOURCE_DIR "/configs")) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream stream(entry.path());
      const std::string text(std::istreambuf_iterator<char>(stream), {});
      const auto nodes = config_of(text).nodes.size();
      for (std::size_t i = 0; i < std::max<std::size_t>(nodes, 1); ++i) {
        const auto values = values_of(text, i);
        CHECK_MESSAGE(values.command.front() == "trainer", entry.path().string());
        CHECK(value_in(values, "nproc_per_node") != "(none)");
        if (nodes > 1) CHECK(value_in(values, "node_rank") == std::to_string(i));
      }
      ++files;
    }
    CHECK(files >= 3);
  }
}

}  // namespace config_command_test
