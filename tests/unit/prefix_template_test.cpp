#include "launcher/cli/option_values.hpp"
#include "launcher/plan/line_prefix.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

namespace prefix_template_test {

using namespace ddprun;

namespace {

constexpr PrefixValues kValues{.role_name = "trainer",
                               .local_rank = 1,
                               .rank = 9,
                               .hostname = "r12i0n8",
                               .node_rank = 2,
                               .attempt = 3,
                               .stream = "stderr"};

/// The expanded template, with "@" for the time of a line, or its problem.
std::string filled_in(const std::string& text,
                      UnknownFields unknown = UnknownFields::are_problems) {
  const auto parsed = parse_prefix_template(text, unknown);
  if (const auto* problem = std::get_if<ValueProblem>(&parsed)) return "problem: " + problem->text;
  const auto prefix = fill_in(std::get<PrefixTemplate>(parsed), kValues);
  std::string result = prefix.parts.front();
  for (std::size_t i = 1; i < prefix.parts.size(); ++i) result += "@" + prefix.parts[i];
  return result;
}

}  // namespace

TEST_SUITE("prefix template") {
  TEST_CASE("prefix template: fields are replaced and other text is kept") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"[${role_name}${local_rank}]:", "[trainer1]:"},
        {"${rank}|", "9|"},
        {"$rank|", "9|"},
        {"${hostname}:${rank}: ", "r12i0n8:9: "},
        {"${node_rank}.${attempt} ${stream} ", "2.3 stderr "},
        {"${time} ${rank}: ", "@ 9: "},
        {"${time}${time}", "@@"},
        {"$$${rank}$$", "$9$"},
        {"{rank} }", "{rank} }"},
        {"\xc3\xa4\x1b[1m", "\xc3\xa4\x1b[1m"},
        {"none", ""},
        {"", ""},
        {"nonesuch", "nonesuch"},
    };
    for (const auto& row : table) {
      const auto& text = row.first;
      const auto& expected = row.second;
      CAPTURE(text);
      CHECK(filled_in(text) == expected);
    }
  }

  TEST_CASE("prefix template: unknown fields are reported") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"${rnak}", "has no field 'rnak'; did you mean ${rank}?"},
        {"${Rank}", "has no field 'Rank'; did you mean ${rank}?"},
        {"$ranks", "has no field 'ranks'; did you mean ${rank}?"},
        {"${pid}:",
         "has no field 'pid'; there are role_name, local_rank, rank, node_rank, attempt, stream, "
         "hostname, time"},
        {"$", "has a '$' without a name; write ${rank} for a field, $$ for a dollar sign"},
        {"a$ b", "has a '$' without a name; write ${rank} for a field, $$ for a dollar sign"},
        {"${}", "has a '$' without a name; write ${rank} for a field, $$ for a dollar sign"},
        {"${rank", "has a '$' without a name; write ${rank} for a field, $$ for a dollar sign"},
        {"a\nb", "has a line break"},
        {"a\rb", "has a line break"},
        {std::string(kPrefixBytesMax + 1, 'x'), "is longer than 256 bytes"},
    };
    for (const auto& row : table) {
      const auto& text = row.first;
      const auto& problem = row.second;
      CAPTURE(text);
      CHECK(filled_in(text) == "problem: " + problem);
    }
    CHECK(filled_in(std::string(kPrefixBytesMax, 'x')).size() == kPrefixBytesMax);
  }

  TEST_CASE("prefix template: torchrun's option keeps unknown fields as text") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {"[${rank}/${jobid}]:", "[9/${jobid}]:"},
        {"$pid $rank", "$pid 9"},
        {"${rank", "${rank"},
        {"a$ ${}b$", "a$ ${}b$"},
        {"$$pid", "$pid"},
        {"$Rank", "$Rank"},
    };
    for (const auto& row : table) {
      CAPTURE(row.first);
      CHECK(filled_in(row.first, UnknownFields::are_text) == row.second);
    }
  }

  TEST_CASE("prefix template: the default equals torchrun's") {
    CHECK(std::get<PrefixTemplate>(parse_prefix_template(
              "[${role_name}${local_rank}]:", UnknownFields::are_problems)) == default_prefix());
  }
}

}  // namespace prefix_template_test
