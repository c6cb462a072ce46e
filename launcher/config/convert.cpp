#include "launcher/config/convert.hpp"

#include "launcher/cli/option_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/config/interpolation.hpp"
#include "launcher/config/json_build.hpp"
#include "launcher/config/key_table.hpp"
#include "launcher/config/node_names.hpp"
#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>

namespace ddprun {

namespace {

JsonValue new_file() {
  return json_object({{"version", json_number(std::to_string(kConfigVersion))}});
}

struct Host {
  std::string name;
  std::optional<int> slots{};  ///< absent if not given
};

/// A host with its lines in the hostfile.
struct HostLines {
  Host host;
  int first = 0;  ///< line
  int count = 1;
};

/// Parses a number of workers.
Parsed<int> slots_in(const std::string& text) {
  auto slots = parse_integer(text, 1, kLocalWorkersMax);
  if (const auto* problem = std::get_if<ValueProblem>(&slots)) {
    return ValueProblem{"the number of slots '" + text + "' " + problem->text};
  }
  return slots;
}

Parsed<Host> host_in(const std::string& line) {
  std::istringstream words(line);
  Host host;
  words >> host.name;
  host.name.erase(0, host.name.find('@') + 1);  // ddprun does not start agents as another user
  const auto colon = host.name.find(':');
  std::optional<Parsed<int>> slots;
  if (colon != std::string::npos && host.name.find(':', colon + 1) == std::string::npos) {
    slots = slots_in(host.name.substr(colon + 1));
    host.name.resize(colon);
  }
  for (std::string word; words >> word;) {
    const auto parts = split(word, '=');
    if (parts.size() != 2) return ValueProblem{"'" + word + "' is not of the form key=value"};
    const auto& key = parts.front();
    if (key == "slots") {
      slots = slots_in(parts.back());
    } else if (key != "max_slots" && key != "max-slots") {
      return ValueProblem{"unknown key '" + key + "'; valid are slots and max_slots"};
    }
  }
  if (!slots) return host;
  if (const auto* problem = std::get_if<ValueProblem>(&*slots)) return *problem;
  host.slots = std::get<int>(*slots);
  return host;
}

JsonValue node_of(const HostLines& lines) {
  const int workers = lines.host.slots.value_or(lines.count);
  return json_object({{"name", json_text_value(lines.host.name)},
                      {"nproc_per_node", json_number(std::to_string(workers))}});
}

/// Adds a host, or another line of a host without a number of slots, since PBS writes a line for
/// each worker. `lines` has the first line of each name. Returns the problem, or an empty text.
std::string add_host(std::vector<HostLines>& hosts, std::map<std::string, int>& lines,
                     const Host& host, int line) {
  const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const HostLines& other) {
    return other.host.name == host.name;
  });
  if (same == hosts.end()) {
    const auto names = expand_node_names(host.name);
    if (const auto* problem = std::get_if<ValueProblem>(&names)) {
      return "the name '" + host.name + "' " + problem->text;
    }
    for (const auto& name : std::get<std::vector<std::string>>(names)) {
      const auto [first, is_new] = lines.emplace(name, line);
      if (!is_new) return name + " is already listed on line " + std::to_string(first->second);
    }
    if (lines.size() > kNodeNamesMax) {
      return "there are more than " + std::to_string(kNodeNamesMax) + " hosts";
    }
    hosts.push_back({host, line});
    return {};
  }
  if (host.slots || same->host.slots)
    return host.name + " is already listed on line " + std::to_string(same->first);
  if (++same->count <= kLocalWorkersMax) return {};
  return host.name + " is listed on more than " + std::to_string(kLocalWorkersMax) + " lines";
}

/// Returns true if torchrun would run the program by Python.
bool is_script_by_default(const LaunchOptions& options, const std::string& program) {
  return !options.module && !options.no_python && !options.run_path && !program.ends_with(".py");
}

bool continues_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

/// Returns an option's text as JSON: a number, a boolean or a text.
JsonValue value_of(const OptionEntry& option, const std::string& text) {
  const auto shape = shape_of(option);
  if (shape.takes_boolean) return json_boolean(text != "0");
  const auto is_digits = !text.empty() && text.size() < 10 && (text == "0" || text[0] != '0') &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  if (shape.takes_number && is_digits) return json_number(text);
  return json_text_value(with_doubled_dollars(text));
}

/// Arguments keep ${local_rank} and $$, which the launcher replaces.
std::string argument_text(const std::string& argument) {
  constexpr std::string_view kMacro = "local_rank";
  std::string text;
  for (std::size_t i = 0; i < argument.size(); ++i) {
    const auto rest = std::string_view(argument).substr(i);
    if (rest.starts_with("$$") || rest.starts_with("${local_rank}")) {
      text += "$";
      if (rest.starts_with("$$")) text += argument[++i];
    } else if (rest.starts_with("$local_rank") &&
               (rest.size() == kMacro.size() + 1 || !continues_name(rest[kMacro.size() + 1]))) {
      text += "${local_rank}";
      i += kMacro.size();
    } else {
      text.append(rest[0] == '$' ? 2 : 1, rest[0]);
    }
  }
  return text;
}

constexpr const char* kSecretFile = "run.key";

/// Returns true for options whose value differs between nodes.
bool differs_between_nodes(const OptionEntry& option) {
  return option.name == "node_rank" || option.name == "local_addr" || option.name == "node_name";
}

/// Completes the file. Several nodes need a secret.
ConvertedFile finished(JsonValue file, bool has_many_nodes) {
  const bool needs_secret = has_many_nodes && file.find("security") == nullptr;
  if (!needs_secret) return {pretty_json(file)};
  add_member(file, "security", json_object({{"secret_file", json_text_value(kSecretFile)}}));
  const std::string name = kSecretFile;
  return {pretty_json(file),
          {"the nodes need a secret, which the file expects in " + name +
           "; create it with 'ddprun keygen " + name +
           "' and copy it to all nodes; with --ssh, omit the section \"security\""}};
}

}  // namespace

std::variant<ConvertedFile, UsageProblem> convert_hostfile(const std::string& name,
                                                           std::string_view text) {
  UsageProblem usage;
  std::vector<HostLines> hosts;
  std::map<std::string, int> lines;
  int number = 0;
  for (const auto& whole : split(text, '\n')) {
    ++number;
    const auto line = whole.substr(0, whole.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto place = name + ":" + std::to_string(number) + ": ";
    const auto host = host_in(line);
    if (const auto* problem = std::get_if<ValueProblem>(&host)) {
      usage.problems.push_back(place + problem->text);
      continue;
    }
    const auto problem = add_host(hosts, lines, std::get<Host>(host), number);
    if (!problem.empty()) usage.problems.push_back(place + problem);
  }
  if (hosts.empty() && usage.problems.empty()) usage.problems.push_back(name + ": names no host");
  if (!usage.problems.empty()) return usage;
  auto file = new_file();
  const bool has_many = hosts.size() > 1;
  std::vector<JsonValue> nodes;
  for (const auto& host : hosts) nodes.push_back(node_of(host));
  add_member(file, "nodes", json_array(std::move(nodes)));
  return finished(std::move(file), has_many);
}

std::variant<ConvertedFile, UsageProblem> convert_arguments(
    const std::vector<std::string>& arguments) {
  const auto parsed = read_arguments(arguments);
  UsageProblem usage;
  if (!parsed.problem.empty()) usage.problems.push_back(parsed.problem);
  LaunchOptions scratch;
  const GatheredValues values{parsed.given, parsed.rest, {}, {}};
  for (auto& problem : apply_values(values, scratch)) usage.problems.push_back(std::move(problem));
  std::vector<std::string> notes;
  for (const auto& [option, given] : parsed.given) {
    if (option->section != ConfigSection::none) continue;
    if (!differs_between_nodes(*option)) {
      usage.problems.push_back(given.where +
                               ": is not allowed in a configuration file, only on the command "
                               "line; leave it out here");
      continue;
    }
    notes.push_back(given.where +
                    " is omitted, since all nodes share the file; pass it on each node in addition "
                    "to --config, or list the nodes in the file");
  }
  if (!usage.problems.empty()) return usage;
  auto file = new_file();
  for (const auto& section : section_names()) {
    auto object = json_object({});
    if (section.section == ConfigSection::job && !parsed.rest.empty()) {
      std::vector<std::string> command;
      if (is_script_by_default(scratch, parsed.rest[0])) {
        command = {"python3", "-u"};
        notes.push_back(parsed.rest[0] + " is run by python3; torchrun uses its own Python");
      }
      command.push_back(with_doubled_dollars(parsed.rest[0]));
      for (std::size_t i = 1; i < parsed.rest.size(); ++i) {
        command.push_back(argument_text(parsed.rest[i]));
      }
      add_member(object, "command", json_texts(command));
    }
    for (const auto& option : option_table()) {
      const auto given = parsed.given.find(&option);
      if (given == parsed.given.end() || option.section != section.section) continue;
      add_member(object, std::string(option.key()), value_of(option, given->second.value));
    }
    if (!object.members.empty()) add_member(file, std::string(section.name), std::move(object));
  }
  auto made = finished(std::move(file), scratch.nnodes.max > 1);
  made.notes.insert(made.notes.begin(), notes.begin(), notes.end());
  return made;
}

}  // namespace ddprun
