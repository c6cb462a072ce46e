// Compares each PET_ variable with its argument.
#include "launcher/cli/option_table.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/command_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace pet_variables_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// A value for each option that takes one and has a variable; none is the default.
const std::map<std::string_view, std::string> kValues = {
    {"duplicate_stderr_filters", "a,b"},
    {"duplicate_stdout_filters", "c"},
    {"event_log_handler", "console"},
    {"local_addr", "10.0.0.1"},
    {"local_ranks_filter", "0,2"},
    {"log_dir", "logs"},
    {"master_addr", "node0"},
    {"master_port", "29500"},
    {"log_line_prefix_template", "${rank}:"},
    {"max_restarts", "3"},
    {"monitor_interval", "5"},
    {"nnodes", "1:4"},
    {"node_rank", "1"},
    {"nproc_per_node", "auto"},
    {"rdzv_backend", "c10d"},
    {"rdzv_conf", "timeout=5,is_host=1"},
    {"rdzv_endpoint", "node0:29400"},
    {"rdzv_id", "job"},
    {"redirects", "0:3,1:1"},
    {"role", "trainer"},
    {"shutdown_timeout", "1.5"},
    {"signals_to_handle", "SIGTERM,SIGUSR1"},
    {"start_method", "fork"},
    {"tee", "3"},
};

std::string pet_name(const OptionEntry& entry) {
  std::string name = "PET_";
  for (const char letter : entry.name) {
    name += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  return name;
}

std::vector<const OptionEntry*> entries_with_pet() {
  std::vector<const OptionEntry*> entries;
  for (const auto& entry : option_table()) {
    const auto names = split(entry.variables, ' ');
    if (std::find(names.begin(), names.end(), pet_name(entry)) != names.end()) {
      entries.push_back(&entry);
    }
  }
  return entries;
}

std::string value_for(const OptionEntry& entry) {
  if (entry.is_flag()) return "1";
  const auto found = kValues.find(entry.name);
  REQUIRE_MESSAGE(found != kValues.end(), "a value for ", entry.name);
  return found->second;
}

LaunchOptions by_variable(const std::string& name, const std::string& value) {
  return options_of({"x.py"}, {{name, value}});
}

}  // namespace

TEST_SUITE("PET_ variables") {
  TEST_CASE("PET_ variables: a variable has the same effect as its argument") {
    const auto entries = entries_with_pet();
    CHECK(entries.size() > 25);
    for (const auto* entry : entries) {
      const auto name = pet_name(*entry);
      const auto value = value_for(*entry);
      const auto spelled = "--" + std::string(entry->name);
      const auto argument = entry->is_flag() ? spelled : spelled + "=" + value;
      CHECK_MESSAGE(by_variable(name, value) == options_of({argument, "x.py"}), name);
      CHECK_MESSAGE(by_variable(name, value) != options_of({"x.py"}), name);
    }
  }

  TEST_CASE("PET_ variables: any nonzero number enables a flag and an empty value is ignored") {
    for (const auto* entry : entries_with_pet()) {
      const auto name = pet_name(*entry);
      CHECK_MESSAGE(by_variable(name, "") == options_of({"x.py"}), name);
      if (!entry->is_flag()) continue;
      CHECK_MESSAGE(by_variable(name, "0") == options_of({"x.py"}), name);
      CHECK_MESSAGE(by_variable(name, "2") == by_variable(name, "1"), name);
      CHECK_MESSAGE(by_variable(name, "-1") == by_variable(name, "1"), name);
    }
  }

  TEST_CASE("PET_ variables: a flag variable that is not a number is rejected by name") {
    for (const auto* entry : entries_with_pet()) {
      if (!entry->is_flag()) continue;
      for (const std::string value : {"yes", "True", "1.5", " "}) {
        const auto expected = pet_name(*entry) + "=" + value + ": is not an integer";
        CHECK(contains(problems_of({"x.py"}, {{pet_name(*entry), value}}), expected));
      }
    }
  }

  TEST_CASE("PET_ variables: an argument overrides its variable in any spelling") {
    for (const auto* entry : entries_with_pet()) {
      if (entry->is_flag()) continue;
      const auto value = value_for(*entry);
      const auto plain = options_of({"--" + std::string(entry->name), value, "x.py"});
      std::string dashed = "--" + std::string(entry->name);
      std::replace(dashed.begin() + 2, dashed.end(), '_', '-');
      const Variables wrong = {{pet_name(*entry), "~"}};
      CHECK_MESSAGE(options_of({dashed + "=" + value, "x.py"}, wrong) == plain, dashed);
    }
  }
}

}  // namespace pet_variables_test
