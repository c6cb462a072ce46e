#include "launcher/config/resolve_config.hpp"

#include "launcher/cli/option_values.hpp"
#include "launcher/config/identity.hpp"
#include "launcher/config/interpolation.hpp"
#include "launcher/config/named_nodes.hpp"

#include <algorithm>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

class Resolver {
 public:
  Resolver(const ConfigFile& file, const FoundNode& node, const GivenValues& given,
           const EnvironmentLookup& environment)
      : file_(file), node_(node), given_(given), environment_(environment) {}

  std::variant<ConfigValues, UsageProblem> resolve() {
    add_sections();
    add_node();
    add_command();
    values_.settings.hash = config_hash(canonical_json(file_.root));
    values_.settings.outline = config_outline(file_.root);
    if (!problems_.empty()) return describe_problems(file_.name, std::move(problems_));
    return std::move(values_);
  }

 private:
  void add_sections() {
    for (const auto& section : section_names()) {
      const auto* member = file_.root.find(section.name);
      if (member != nullptr)
        add_settings(section.section, member->value, std::string(section.name));
    }
  }

  void add_settings(ConfigSection section, const JsonValue& object, const std::string& path) {
    for (const auto& setting : settings_in(section, object, path)) add_setting(setting);
    const auto* environment = object.find("environment");
    if (section == ConfigSection::node && environment != nullptr) {
      add_environment(environment->value, path + ".environment");
    }
  }

  void add_setting(const ConfigSetting& setting) {
    const auto& value = setting.member->value;
    const auto shape = shape_of(*setting.option);
    const auto written = std::get<std::string>(option_text(shape, value));
    auto text = replaced(written, value.at, setting.path);
    if (!text) return;
    if (shape.takes_boolean && (*text == "true" || *text == "false")) {
      text = *text == "true" ? "1" : "0";
    }
    LaunchOptions scratch;
    if (const auto problem = setting.option->apply(scratch, *text)) {
      problems_.push_back({value.at, setting.path, json_quoted(*text) + " " + *problem});
    } else if (has_reference(written)) {
      set(*setting.option, *text, value.at, setting.path + " (" + written + ")");
    } else {
      set(*setting.option, *text, value.at, setting.path);
    }
  }

  void set(const OptionEntry& option, const std::string& text, TextPosition at,
           const std::string& path) {
    values_.options[&option] = {text, place_of(file_.name, at, path)};
  }

  void add_environment(const JsonValue& object, const std::string& path) {
    auto& changes = values_.settings.environment;
    for (const auto& variable : object.members) {
      EnvironmentChange change{variable.key, std::nullopt};
      if (!variable.value.is(Kind::null)) {
        change.value =
            replaced(variable.value.text, variable.value.at, member_path(path, variable.key));
      }
      std::erase_if(changes, [&](const auto& earlier) { return earlier.name == change.name; });
      changes.push_back(std::move(change));
    }
  }

  void add_node() {
    if (!node_.index) return;
    const auto& node = file_.nodes[*node_.index];
    const auto& entries = file_.root.find("nodes")->value.elements;
    const auto path = element_path("nodes", node.entry);
    add_settings(ConfigSection::node, entries[node.entry], path);
    values_.settings.notes.push_back(
        "this machine is node " + node_.name + " (" + std::to_string(*node_.index + 1) + " of " +
        std::to_string(file_.nodes.size()) + ") of " + file_.name + ": " + node_.how);
    values_.settings.nodes = named_nodes(file_, given_, environment_);
    values_.settings.own_node = node_.index;
    if (nodes_wanted() > 1) derive_from_nodes();
  }

  /// Returns the maximum number of nodes of the run.
  int nodes_wanted() const {
    auto value = value_of(given_, "nnodes");
    if (!value) value = value_of(values_.options, "nnodes");
    if (!value) return static_cast<int>(file_.nodes.size());
    const auto range = parse_node_range(value->value);
    const auto* parsed = std::get_if<NodeRange>(&range);
    return parsed == nullptr ? 1 : parsed->max;
  }

  /// Derives the options that several nodes need for the rendezvous, unless they are set.
  void derive_from_nodes() {
    const auto& node = file_.nodes[*node_.index];
    const auto& first = file_.nodes.front();
    const auto& entries = file_.root.find("nodes")->value.elements;
    const auto at = entries[node.entry].at;
    const auto path = element_path("nodes", node.entry);
    if (!is_set("nnodes")) values_.settings.nodes_from = file_.name;
    derive("nnodes", std::to_string(file_.nodes.size()), file_.root.find("nodes")->at, "nodes");
    if (has_rank()) derive("node_rank", std::to_string(*node_.index), at, path);
    if (!node.address.empty()) derive("local_addr", node.address, at, path + ".address");
    for (const auto& each : file_.nodes) {
      values_.settings.names_in_run.push_back(each.name);
    }
    const bool is_elsewhere = is_set("master_addr") || is_set("standalone") || is_by_etcd();
    if (is_elsewhere) return;
    const bool has_address = !first.address.empty();
    derive("rdzv_endpoint", endpoint_text(has_address ? first.address : first.name),
           entries.front().at, has_address ? "nodes[0].address" : "nodes[0].name");
  }

  /// Returns false if only some nodes of the file may join: then ranks are assigned at the
  /// rendezvous and not by the order of the file.
  bool has_rank() const {
    return backend() == RendezvousBackend::fixed || static_cast<int>(*node_.index) < nodes_wanted();
  }

  /// With etcd the endpoint is not a node of the file.
  bool is_by_etcd() const { return is_etcd(backend()); }

  RendezvousBackend backend() const {
    auto given = value_of(given_, "rdzv_backend");
    if (!given) given = value_of(values_.options, "rdzv_backend");
    return rendezvous_backend_or_default(given ? given->value : "");
  }

  /// An IPv6 address in an endpoint needs brackets.
  static std::string endpoint_text(const std::string& host) {
    return host.find(':') == std::string::npos ? host : "[" + host + "]";
  }

  bool is_set(const char* name) const {
    const auto* option = find_option(name);
    return values_.options.contains(option) || given_.contains(option);
  }

  void derive(const char* name, const std::string& text, TextPosition at, const std::string& path) {
    if (!is_set(name)) set(*find_option(name), text, at, path);
  }

  void add_command() {
    const auto* job = file_.root.find("job");
    const auto* command = job == nullptr ? nullptr : job->value.find("command");
    if (command == nullptr) return;
    const auto& words = command->value.elements;
    for (std::size_t i = 0; i < words.size(); ++i) {
      // Macros are replaced later in arguments, but not in the program.
      const auto use = i == 0 ? TextUse::value : TextUse::program_argument;
      const auto word = replaced(words[i].text, words[i].at, element_path("job.command", i), use);
      values_.command.push_back(word.value_or(""));
    }
  }

  std::optional<std::string> replaced(const std::string& text, TextPosition at,
                                      const std::string& path, TextUse use = TextUse::value) {
    const auto known = [this](const std::string& name) { return look_up(name); };
    auto result = interpolate(text, known, use);
    if (const auto* problem = std::get_if<ValueProblem>(&result)) {
      problems_.push_back({at, path, problem->text});
      return std::nullopt;
    }
    return std::get<std::string>(result);
  }

  std::optional<std::string> look_up(const std::string& name) const {
    if (name == "node.name") return node_.name;
    if (name == "node.index") return std::to_string(node_.index.value_or(0));
    if (name == "node.address" && node_.index) return file_.nodes[*node_.index].address;
    return environment_(name);
  }

  const ConfigFile& file_;
  const FoundNode& node_;
  const GivenValues& given_;
  const EnvironmentLookup& environment_;
  ConfigValues values_;
  std::vector<TextProblem> problems_;
};

}  // namespace

std::variant<ConfigValues, UsageProblem> resolve_config(const ConfigFile& file,
                                                        const FoundNode& node,
                                                        const GivenValues& given,
                                                        const EnvironmentLookup& environment) {
  return Resolver(file, node, given, environment).resolve();
}

}  // namespace ddprun
