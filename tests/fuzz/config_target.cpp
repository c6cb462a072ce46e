#include "tests/fuzz/config_target.hpp"

#include "launcher/config/identity.hpp"
#include "launcher/config/resolve_config.hpp"
#include "tests/fuzz/promise.hpp"

#include <algorithm>
#include <string>

namespace ddprun::fuzz {

namespace {

void check_problems(const UsageProblem& usage) {
  require(!usage.problems.empty(), "a refusal has problems");
  for (const auto& problem : usage.problems) {
    require(problem.rfind("fuzz:", 0) == 0, "a problem has a place");
  }
}

/// Two variables: one with a dollar sign in it, one empty.
std::optional<std::string> variable(const std::string& name) {
  if (name == "A") return "x$y";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

void check_canonical(const JsonValue& root, std::size_t input_bytes) {
  const auto text = canonical_json(root);
  require(text.size() <= input_bytes, "a canonical text is no longer than the input");
  const auto again = parse_json(text);
  require(again.problems.empty() && canonical_json(again.root) == text,
          "a canonical text reads as what it was made of");
  const auto outline = config_outline(root);
  require(outline == config_outline(again.root) && first_difference(outline, outline).empty(),
          "a text does not differ from itself");
}

}  // namespace

void run_config(std::span<const std::uint8_t> input) {
  const std::string text(input.begin(), input.end());
  const auto document = parse_json(text);
  require(document.is_whole || !document.problems.empty(), "what is not whole has problems");
  if (document.problems.empty()) check_canonical(document.root, text.size());
  const auto read = read_config("fuzz", text);
  if (const auto* usage = std::get_if<UsageProblem>(&read)) return check_problems(*usage);
  const auto& file = std::get<ConfigFile>(read);
  const NodeClues clues{
      .host_names = {"node1"}, .addresses = {"10.0.0.1"}, .environment = variable};
  const auto found = find_node(file, clues);
  require(found.index() == 0 || !std::get<UsageProblem>(found).problems.empty(),
          "a node that is not found has a reason");
  constexpr std::size_t kNodesTried = 3;
  for (std::size_t i = 0; i < std::clamp<std::size_t>(file.nodes.size(), 1, kNodesTried); ++i) {
    FoundNode node{"node1", std::nullopt, ""};
    if (!file.nodes.empty()) node = {file.nodes[i].name, i, ""};
    const auto resolved = resolve_config(file, node, {}, variable);
    if (const auto* usage = std::get_if<UsageProblem>(&resolved)) check_problems(*usage);
  }
}

}  // namespace ddprun::fuzz
