// A configuration file, checked as far as that can be done without knowing on which node: its keys,
// their types and values, and what they say about each other. All problems are found at once. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// The only one that there has been.
constexpr int kConfigVersion = 1;

/// A node that an entry of "nodes" stands for, perhaps together with others.
struct ConfigNode {
  std::string name;
  std::string address;    ///< empty: the entry has none
  std::size_t entry = 0;  ///< index in "nodes"
};

/// An option's value in the file.
struct ConfigSetting {
  const OptionEntry* option;
  const JsonMember* member;
  std::string path;
};

struct ConfigFile {
  std::string name;  ///< of the file, for messages
  JsonValue root;
  std::vector<ConfigNode> nodes;  ///< in the file's order, which is that of their ranks
};

/// The file, or a line "file:line:column: path: message" for each problem.
std::variant<ConfigFile, UsageProblem> read_config(const std::string& file_name,
                                                   std::string_view text);

/// As above, for problems that are found later; sorted by position.
UsageProblem describe_problems(const std::string& file_name, std::vector<TextProblem> problems);

/// "cluster.json:4:7: restart.max_restarts".
std::string place_of(const std::string& file_name, TextPosition at, const std::string& path);

/// The options that an object of this section sets.
std::vector<ConfigSetting> settings_in(ConfigSection section, const JsonValue& object,
                                       const std::string& path);

/// What is wrong with the members of an object of this section; `also_allowed` are keys that the
/// caller knows.
void check_section(ConfigSection section, const JsonValue& object, const std::string& path,
                   const std::vector<std::string>& also_allowed,
                   std::vector<TextProblem>& problems);

/// The nodes that "nodes" stands for, and what is wrong with it and with the addresses.
std::vector<ConfigNode> read_nodes(const JsonValue& root, std::vector<TextProblem>& problems);

}  // namespace ddprun
