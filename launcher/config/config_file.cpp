#include "launcher/config/config_file.hpp"

#include "launcher/config/interpolation.hpp"
#include "launcher/config/ssh_settings.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;
using Problems = std::vector<TextProblem>;

/// Keys use underscores only, and no abbreviations.
const OptionEntry* option_with_key(const std::string& key) {
  for (const auto& option : option_table()) {
    if (option.key() == key) return &option;
  }
  return nullptr;
}

/// Returns the section of the option or key with this name; empty if it has no section.
std::string section_name_of(const std::string& key) {
  auto section = ConfigSection::none;
  if (const auto* option = option_with_key(key)) section = option->section;
  for (const auto& own : own_keys()) {
    if (own.name == key) section = own.section;
  }
  for (const auto& candidate : section_names()) {
    if (candidate.section == section) return std::string(candidate.name);
  }
  return {};
}

/// Returns the known key that was probably intended: a similar one, or one that ends in "_key", as
/// rdzv_endpoint for endpoint.
std::string likely_key(const std::string& key, const std::vector<std::string>& known) {
  const auto nearest = nearest_word(key, known);
  if (!nearest.empty()) return nearest;
  for (const auto& candidate : known) {
    const auto end = "_" + key;
    if (candidate.size() > end.size() && candidate.ends_with(end)) return candidate;
  }
  return {};
}

TextProblem unknown_key(const JsonMember& member, const std::string& path,
                        const std::vector<std::string>& known) {
  const bool is_section = std::any_of(section_names().begin(), section_names().end(),
                                      [&](const auto& each) { return each.name == member.key; });
  if (is_section && path.starts_with("nodes[")) {
    const auto outer = path.substr(0, path.rfind('.'));
    return {member.at, "",
            outer + " has no key " + member.key + ": the section \"" + member.key +
                "\" at the top holds for all nodes"};
  }
  const auto section = section_name_of(member.key);
  if (!section.empty()) return {member.at, path, "belongs to section " + section};
  if (option_with_key(member.key) != nullptr) {
    return {member.at, path, "is accepted on the command line only"};
  }
  const auto likely = likely_key(member.key, known);
  return {member.at, path,
          "unknown key; " +
              (likely.empty() ? "valid are " + join(known, ", ") : "did you mean " + likely + "?")};
}

void check_setting(const ConfigSetting& setting, Problems& problems) {
  const auto& value = setting.member->value;
  const auto add = [&](const std::string& message) {
    problems.push_back({value.at, setting.path, message});
  };
  const auto text = option_text(shape_of(*setting.option), value);
  if (const auto* problem = std::get_if<ValueProblem>(&text)) return add(problem->text);
  const auto& written = std::get<std::string>(text);
  if (has_reference(written)) {
    if (const auto problem = reference_problem(written)) add(*problem);
    return;
  }
  LaunchOptions scratch;
  if (const auto problem = setting.option->apply(scratch, written)) {
    add(describe_value(value) + " " + *problem);
  }
}

void check_command(const JsonMember& command, const std::string& path, Problems& problems) {
  const auto& array = command.value;
  if (!array.is(Kind::array)) {
    problems.push_back(
        {array.at, path,
         "expected an array of the program and its arguments, found " + describe_value(array)});
    return;
  }
  if (array.elements.empty()) problems.push_back({array.at, path, "names no program"});
  for (std::size_t i = 0; i < array.elements.size(); ++i) {
    const auto& word = array.elements[i];
    const auto here = element_path(path, i);
    if (!word.is(Kind::string) && !word.is(Kind::number)) {
      problems.push_back({word.at, here, "expected a string, found " + describe_value(word)});
    } else if (const auto problem = reference_problem(word.text)) {
      problems.push_back({word.at, here, *problem});
    } else if (i == 0 && word.text.empty()) {
      problems.push_back({word.at, here, "names no program"});
    }
  }
}

/// Returns true for variables that the launcher sets in each worker.
bool is_set_by_launcher(const std::string& name) {
  if (name == "LOCAL_RANK" || name.rfind("DDPRUN_", 0) == 0) return true;
  return to_environment(WorkerEnv{}).contains(name);
}

void check_environment(const JsonMember& environment, const std::string& path, Problems& problems) {
  if (!environment.value.is(Kind::object)) {
    problems.push_back({environment.value.at, path,
                        "expected an object, found " + describe_value(environment.value)});
    return;
  }
  for (const auto& variable : environment.value.members) {
    const auto here = member_path(path, variable.key);
    const auto& value = variable.value;
    if (variable.key.empty() || variable.key.find('=') != std::string::npos) {
      problems.push_back({variable.at, here, "cannot be the name of a variable"});
    } else if (is_set_by_launcher(variable.key)) {
      problems.push_back({variable.at, here, "is set by ddprun for each worker"});
    } else if (!value.is(Kind::string) && !value.is(Kind::number) && !value.is(Kind::null)) {
      problems.push_back(
          {value.at, here, "expected a string, a number or null, found " + describe_value(value)});
    } else if (const auto problem = reference_problem(value.text)) {
      problems.push_back({value.at, here, *problem});
    }
  }
}

void check_own_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   Problems& problems) {
  if (key.value == OwnKey::Value::command) return check_command(member, path, problems);
  if (key.value == OwnKey::Value::environment) return check_environment(member, path, problems);
  check_ssh_key(key, member, path, problems);
}

void check_version(const JsonValue& root, Problems& problems) {
  const auto* version = root.find("version");
  const auto wanted = std::to_string(kConfigVersion);
  if (version == nullptr) {
    problems.push_back({root.at, "", "version is missing: write \"version\": " + wanted});
  } else if (!version->value.is(Kind::number) || version->value.text != wanted) {
    problems.push_back({version->value.at, "version",
                        "expected " + wanted + ", the only supported version, found " +
                            describe_value(version->value)});
  }
}

void check_root(const JsonValue& root, Problems& problems) {
  std::vector<std::string> known = {"version", "$schema", "nodes"};
  for (const auto& section : section_names()) known.emplace_back(section.name);
  for (const auto& member : root.members) {
    const auto section =
        std::find_if(section_names().begin(), section_names().end(),
                     [&](const SectionName& candidate) { return candidate.name == member.key; });
    if (section != section_names().end()) {
      check_section(section->section, member.value, member.key, {}, problems);
    } else if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      problems.push_back(unknown_key(member, member_path("", member.key), known));
    }
  }
  check_version(root, problems);
}

}  // namespace

std::vector<ConfigSetting> settings_in(ConfigSection section, const JsonValue& object,
                                       const std::string& path) {
  std::vector<ConfigSetting> settings;
  for (const auto& member : object.members) {
    const auto* option = option_with_key(member.key);
    if (option == nullptr || option->section != section) continue;
    settings.push_back({option, &member, member_path(path, member.key)});
  }
  return settings;
}

void check_section(ConfigSection section, const JsonValue& object, const std::string& path,
                   const std::vector<std::string>& also_allowed, Problems& problems) {
  if (!object.is(Kind::object)) {
    problems.push_back({object.at, path, "expected an object, found " + describe_value(object)});
    return;
  }
  auto known = also_allowed;
  for (const auto& option : option_table()) {
    if (option.section == section) known.emplace_back(option.key());
  }
  for (const auto& own : own_keys()) {
    if (own.section == section) known.emplace_back(own.name);
  }
  for (const auto& member : object.members) {
    const auto here = member_path(path, member.key);
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      problems.push_back(unknown_key(member, here, known));
    } else if (const auto* own = find_own_key(section, member.key)) {
      check_own_key(*own, member, here, problems);
    }
  }
  for (const auto& setting : settings_in(section, object, path)) check_setting(setting, problems);
}

std::string place_of(const std::string& file_name, TextPosition at, const std::string& path) {
  return file_name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
         (path.empty() ? "" : ": " + path);
}

UsageProblem describe_problems(const std::string& file_name, Problems problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  UsageProblem described;
  for (const auto& problem : problems) {
    if (described.problems.size() == kJsonProblemsMax) {
      described.problems.push_back(file_name + ": and " +
                                   std::to_string(problems.size() - kJsonProblemsMax) + " more");
      break;
    }
    described.problems.push_back(place_of(file_name, problem.at, problem.path) + ": " +
                                 problem.message);
  }
  return described;
}

std::variant<ConfigFile, UsageProblem> read_config(const std::string& file_name,
                                                   std::string_view text) {
  auto document = parse_json(text);
  auto problems = std::move(document.problems);
  if (!document.is_whole) return describe_problems(file_name, std::move(problems));
  ConfigFile file{file_name, std::move(document.root), {}};
  if (!file.root.is(Kind::object)) {
    problems.push_back(
        {file.root.at, "", "expected an object, found " + describe_value(file.root)});
    return describe_problems(file_name, std::move(problems));
  }
  check_root(file.root, problems);
  file.nodes = read_nodes(file.root, problems);
  if (!problems.empty()) return describe_problems(file_name, std::move(problems));
  return file;
}

}  // namespace ddprun
