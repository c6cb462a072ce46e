#include "launcher/cli/given_values.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>

namespace ddprun {

namespace {

std::string spelled(const OptionEntry& entry) {
  return "--" + std::string(entry.name);
}

/// Returns true for "-1" or "-.5", which are values for argparse.
bool is_negative_number(const std::string& text) {
  const auto digits = text.substr(text.size() > 1 && text[1] == '.' ? 2 : 1);
  return !digits.empty() && std::all_of(digits.begin(), digits.end(), [](unsigned char letter) {
    return std::isdigit(letter) || letter == '.';
  });
}

bool looks_like_option(const std::string& text) {
  return text.size() > 1 && text[0] == '-' && !is_negative_number(text);
}

/// Reads the arguments up to the program's name.
class Reader {
 public:
  explicit Reader(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  void read() {
    while (next_ < arguments_.size() && problem_.empty()) {
      const auto& argument = arguments_[next_];
      if (argument == "--") {
        ++next_;
        break;
      }
      if (argument.size() < 2 || argument[0] != '-') break;
      ++next_;
      if (argument[1] == '-') {
        read_long(argument);
      } else {
        read_short(argument);
      }
    }
  }

  const std::string& problem() const { return problem_; }
  const GivenValues& given() const { return given_; }

  /// Returns the program and its arguments.
  std::vector<std::string> rest() const {
    return {arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end()};
  }

 private:
  void read_long(const std::string& argument) {
    const auto equals = argument.find('=');
    const auto typed = argument.substr(0, equals);
    const auto* entry = find_abbreviated(typed);
    if (entry == nullptr) return;
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    store(*entry, typed, value);
  }

  /// Reads "-r3", "-r=3", "-r 3", "-m" and combined flags: "-mr3".
  void read_short(const std::string& argument) {
    for (std::size_t i = 1; i < argument.size() && problem_.empty(); ++i) {
      const auto* entry = find_short(argument[i]);
      if (entry == nullptr) {
        problem_ = "unknown option " + argument + hint_for(argument.substr(1));
        return;
      }
      const std::string typed = {'-', argument[i]};
      if (entry->is_flag()) {
        store(*entry, typed, std::nullopt);
        continue;
      }
      std::optional<std::string> value;
      if (i + 1 < argument.size()) value = argument.substr(i + (argument[i + 1] == '=' ? 2 : 1));
      store(*entry, typed, value);
      return;
    }
  }

  void store(const OptionEntry& entry, const std::string& typed, std::optional<std::string> value) {
    if (entry.is_flag()) {
      if (value) {
        problem_ = typed + " takes no value, but '" + *value + "' was given";
        return;
      }
      given_[&entry] = {"1", spelled(entry)};
      return;
    }
    if (!value) {
      if (next_ == arguments_.size() || looks_like_option(arguments_[next_])) {
        problem_ = typed + " needs a value: " + std::string(entry.value_name);
        return;
      }
      value = arguments_[next_++];
    }
    given_[&entry] = {*value, spelled(entry) + "=" + *value};
  }

  const OptionEntry* find_short(char letter) const {
    for (const auto& entry : option_table()) {
      if (entry.short_name == letter) return &entry;
    }
    return nullptr;
  }

  const OptionEntry* find_abbreviated(const std::string& typed) {
    const auto name = typed.substr(2);
    if (const auto* entry = find_option(name)) return entry;
    // Options of ddprun never make an abbreviation of torchrun ambiguous.
    for (const bool own : {false, true}) {
      const auto matches = starting_with(canonical_name(name), own);
      if (matches.size() == 1) return matches.front();
      if (matches.size() > 1) {
        std::vector<std::string> candidates;
        candidates.reserve(matches.size());
        for (const auto* match : matches) candidates.push_back(spelled(*match));
        problem_ = typed + " is ambiguous: it could be " + join(candidates, ", ");
        return nullptr;
      }
    }
    problem_ = "unknown option " + typed + hint_for(name);
    return nullptr;
  }

  static std::vector<const OptionEntry*> starting_with(const std::string& start, bool own) {
    std::vector<const OptionEntry*> matches;
    for (const auto& entry : option_table()) {
      if (entry.is_own() == own && entry.name.substr(0, start.size()) == start) {
        matches.push_back(&entry);
      }
    }
    return matches;
  }

  /// Returns true for mpirun's "-n 4", "-n4" and "-np 4", and for names in other launchers.
  static bool is_number_of_workers(const std::string& name) {
    const auto canonical = canonical_name(name.substr(0, name.find('=')));
    const std::vector<std::string> names = {"nprocs", "num_procs", "num_processes", "num_gpus"};
    if (std::find(names.begin(), names.end(), canonical) != names.end()) return true;
    const auto number = name.substr(name.substr(0, 2) == "np" ? 2 : 1);
    return name[0] == 'n' && number.find_first_not_of("=0123456789") == std::string::npos;
  }

  static std::string hint_for(const std::string& name) {
    if (is_number_of_workers(name)) return "; did you mean --nproc_per_node?";
    std::vector<std::string> names;
    for (const auto& entry : option_table()) names.emplace_back(entry.name);
    const auto nearest = nearest_word(canonical_name(name.substr(0, name.find('='))), names);
    if (!nearest.empty()) return "; did you mean --" + nearest + "?";
    return "; options of the program must follow its name";
  }

  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  std::string problem_;
  GivenValues given_;
};

/// Returns true for a variable or an entry of a file for this option; false for an argument, and
/// for another origin that the value is derived from.
bool names_option(const std::string& where, const OptionEntry& entry) {
  if (where.starts_with("-")) return false;
  const auto variables = split(entry.variables, ' ');
  const auto variable = where.substr(0, where.find('='));
  if (std::find(variables.begin(), variables.end(), variable) != variables.end()) return true;
  // "job.json:4:3: restart.max_restarts"; the file's name may contain any word.
  const auto path = where.rfind(": ");
  return path != std::string::npos && where.find(entry.name, path) != std::string::npos;
}

}  // namespace

ParsedArguments read_arguments(const std::vector<std::string>& arguments) {
  Reader reader(arguments);
  reader.read();
  return {reader.given(), reader.rest(), reader.problem()};
}

std::optional<GivenValue> value_from_variables(const OptionEntry& entry,
                                               const EnvironmentLookup& environment) {
  if (entry.variables.empty()) return std::nullopt;
  for (const auto& name : split(entry.variables, ' ')) {
    const auto value = environment(name);
    if (value && !value->empty()) return GivenValue{*value, name + "=" + *value};
  }
  return std::nullopt;
}

std::vector<std::string> with_origins(const std::vector<std::string>& problems,
                                      const LaunchOptions& options) {
  std::vector<std::string> named;
  for (const auto& problem : problems) {
    const auto name_end = std::min(problem.find_first_of("=: "), problem.size());
    const auto name = problem.starts_with("--") ? problem.substr(2, name_end - 2) : std::string();
    const auto origin = options.origins.find(name);
    if (origin == options.origins.end()) {
      named.push_back(problem);
      continue;
    }
    const auto& where = origin->second;
    const auto value_end = problem.find(": ", name_end);
    if (value_end == std::string::npos || problem[name_end] == ' ') {
      named.push_back(where + ": " + problem);  // concerns several options
      continue;
    }
    const auto value = problem.substr(name_end, value_end - name_end);  // "=1:2"
    // Values that the origin does not contain, such as one key of several.
    const bool is_shown = value.empty() || where.ends_with(value);
    named.push_back(where + (is_shown ? "" : ": " + value.substr(1)) + problem.substr(value_end));
  }
  return named;
}

std::optional<GivenValue> value_of(const GivenValues& values, const std::string& name) {
  const auto found = values.find(find_option(name));
  if (found == values.end()) return std::nullopt;
  return found->second;
}

namespace {

/// Adds the values of `source` for options without a value. Returns the settings of `source`.
ConfigSettings add_values(GatheredValues& values, std::variant<ConfigValues, UsageProblem> source) {
  if (auto* problem = std::get_if<UsageProblem>(&source)) {
    values.problems = std::move(problem->problems);
    return {};
  }
  auto& more = std::get<ConfigValues>(source);
  // Two names of one option: the one in the file must not override the other.
  if (values.given.contains(find_option("log_line_prefix_template"))) {
    more.options.erase(find_option("prefix"));
  }
  // Two options that exclude each other.
  if (values.given.contains(find_option("secret_file"))) {
    more.options.erase(find_option("security"));
  } else if (values.given.contains(find_option("security"))) {
    more.options.erase(find_option("secret_file"));
  }
  values.given.merge(more.options);  // existing values stay
  if (values.command.empty()) values.command = std::move(more.command);
  return std::move(more.settings);
}

}  // namespace

GatheredValues gather_values(const ParsedArguments& parsed, const EnvironmentLookup& environment,
                             const OptionSources& sources) {
  GatheredValues values{parsed.given, parsed.rest, {}, {}};
  for (const auto& entry : option_table()) {
    if (values.given.contains(&entry)) continue;
    if (auto value = value_from_variables(entry, environment)) values.given[&entry] = *value;
  }
  const auto file = value_of(values.given, "config");
  if (!file && parsed.given.contains(find_option("node_name"))) {
    values.problems.emplace_back(
        "--node_name: names a node in the --config file, which is not given");
  }
  if (file && sources.config) {
    values.settings = add_values(values, sources.config({file->value, values.given}));
  }
  if (sources.scheduler && values.problems.empty()) {
    const auto settings = add_values(values, sources.scheduler(values.given));
    auto& notes = values.settings.notes;
    notes.insert(notes.end(), settings.notes.begin(), settings.notes.end());
    if (!settings.names_in_run.empty()) {
      values.settings.names_in_run = settings.names_in_run;
      values.settings.reporter = settings.reporter;
      values.settings.nodes_from = settings.nodes_from;
    }
  }
  return values;
}

std::vector<std::string> apply_values(const GatheredValues& values, LaunchOptions& options) {
  std::vector<std::string> problems;
  for (const auto& entry : option_table()) {
    const auto given = values.given.find(&entry);
    if (given == values.given.end()) continue;
    const auto& where = given->second.where;
    if (names_option(where, entry)) options.origins.emplace(entry.name, where);
    if (const auto problem = entry.apply(options, given->second.value)) {
      problems.push_back(where + ": " + *problem);
    }
  }
  options.from_config = values.settings;
  return problems;
}

}  // namespace ddprun
