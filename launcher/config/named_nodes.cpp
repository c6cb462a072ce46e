#include "launcher/config/named_nodes.hpp"

#include "launcher/config/interpolation.hpp"

namespace ddprun {

namespace {

constexpr const char* kOption = "nproc_per_node";

/// Returns the value in this object; empty if absent.
std::string written_in(const JsonValue& object) {
  for (const auto& setting : settings_in(ConfigSection::node, object, "")) {
    if (setting.option->name != kOption) continue;
    const auto text = option_text(shape_of(*setting.option), setting.member->value);
    return std::get<std::string>(text);
  }
  return {};
}

/// Variables are replaced by their values on this node, which may differ on others.
std::string replaced(const std::string& text, const NamedNode& node, std::size_t index,
                     const EnvironmentLookup& environment) {
  const auto known = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "node.name") return node.name;
    if (name == "node.index") return std::to_string(index);
    if (name == "node.address") return node.address;
    return environment(name);
  };
  const auto result = interpolate(text, known);
  const auto* value = std::get_if<std::string>(&result);
  return value == nullptr ? text : *value;
}

}  // namespace

std::vector<NamedNode> named_nodes(const ConfigFile& file, const GivenValues& given,
                                   const EnvironmentLookup& environment) {
  const auto* entries = file.root.find("nodes");
  const auto* defaults = file.root.find("defaults");
  const auto everywhere = value_of(given, kOption);
  std::vector<NamedNode> nodes;
  for (const auto& node : file.nodes) {
    NamedNode named{.name = node.name, .address = node.address};
    auto text = everywhere ? everywhere->value : written_in(entries->value.elements[node.entry]);
    if (text.empty() && defaults != nullptr) text = written_in(defaults->value);
    named.nproc_per_node = text.empty() ? "1" : replaced(text, named, nodes.size(), environment);
    nodes.push_back(std::move(named));
  }
  return nodes;
}

}  // namespace ddprun
