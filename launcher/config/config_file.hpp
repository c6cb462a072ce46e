// A configuration file, checked as far as possible without knowing the node: keys, types, values
// and contradictions. All problems are reported at once. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/json.hpp"
#include "launcher/config/key_table.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// Version of the format.
constexpr int kConfigVersion = 1;

/// A node in "nodes". An entry may describe several nodes.
struct ConfigNode {
  std::string name;
  std::string address;    ///< address of the entry; empty: none
  std::size_t entry = 0;  ///< index in "nodes"
};

/// An option's value in the file.
struct ConfigSetting {
  const OptionEntry* option;
  const JsonMember* member;
  std::string path;
};

struct ConfigFile {
  std::string name;  ///< name of the file, for messages
  JsonValue root;
  std::vector<ConfigNode> nodes;  ///< in the order of the file, which is that of ranks
};

/// Returns the file, or a line "file:line:column: path: message" for each problem.
std::variant<ConfigFile, UsageProblem> read_config(const std::string& file_name,
                                                   std::string_view text);

/// Returns such lines for problems found later, sorted by position.
UsageProblem describe_problems(const std::string& file_name, std::vector<TextProblem> problems);

/// Returns the place of a value, such as "cluster.json:4:7: restart.max_restarts".
std::string place_of(const std::string& file_name, TextPosition at, const std::string& path);

/// Returns the options that an object of this section sets.
std::vector<ConfigSetting> settings_in(ConfigSection section, const JsonValue& object,
                                       const std::string& path);

/// Appends the problems with an object of this section. `also_allowed` are further valid keys.
void check_section(ConfigSection section, const JsonValue& object, const std::string& path,
                   const std::vector<std::string>& also_allowed,
                   std::vector<TextProblem>& problems);

/// Returns the nodes in "nodes". Appends problems with the nodes and their addresses.
std::vector<ConfigNode> read_nodes(const JsonValue& root, std::vector<TextProblem>& problems);

}  // namespace ddprun
