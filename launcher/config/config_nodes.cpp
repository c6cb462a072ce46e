#include "launcher/config/config_file.hpp"
#include "launcher/config/node_names.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <map>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;
using Names = std::vector<std::string>;

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

/// Reads "nodes" and collects the problems.
class NodesReader {
 public:
  NodesReader(const JsonValue& root, std::vector<TextProblem>& problems)
      : root_(root), problems_(problems) {}

  std::vector<ConfigNode> read() {
    const auto* member = root_.find("nodes");
    if (member == nullptr) return {};
    entries_ = &member->value;
    if (!entries_->is(Kind::array)) {
      add(entries_->at, "nodes", "expected an array, found " + describe_value(*entries_));
      return {};
    }
    if (entries_->elements.empty()) add(entries_->at, "nodes", "has no entry; leave it out");
    for (std::size_t i = 0; i < entries_->elements.size(); ++i) read_entry(i);
    check_unique();
    check_number();
    check_addresses();
    return std::move(nodes_);
  }

 private:
  void read_entry(std::size_t index) {
    const auto& entry = entries_->elements[index];
    const auto path = element_path("nodes", index);
    check_section(ConfigSection::node, entry, path, {"name", "address"}, problems_);
    if (!entry.is(Kind::object)) return;
    const auto* name = entry.find("name");
    if (name == nullptr) return add(entry.at, path, "has no name");
    const auto names = names_in(*name, path + ".name");
    const auto* address = entry.find("address");
    const auto addresses = address == nullptr ? Names() : names_in(*address, path + ".address");
    if (!names.empty() && !addresses.empty() && names.size() != addresses.size()) {
      add(address->value.at, path + ".address",
          "stands for " + std::to_string(addresses.size()) + " addresses of " +
              std::to_string(names.size()) + " nodes");
      return;
    }
    if (nodes_.size() + names.size() > kNodeNamesMax) {
      add(name->value.at, path + ".name",
          "exceeds the limit of " + std::to_string(kNodeNamesMax) + " nodes");
      return;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      nodes_.push_back({names[i], addresses.empty() ? "" : addresses[i], index});
    }
  }

  Names names_in(const JsonMember& member, const std::string& path) {
    const auto& value = member.value;
    if (!value.is(Kind::string)) {
      add(value.at, path, "expected a string, found " + describe_value(value));
      return {};
    }
    auto names = expand_node_names(value.text);
    if (const auto* problem = std::get_if<ValueProblem>(&names)) {
      add(value.at, path, describe_value(value) + " " + problem->text);
      return {};
    }
    return std::move(std::get<Names>(names));
  }

  void check_unique() {
    std::map<std::string, std::size_t> names;
    std::map<std::string, std::size_t> addresses;
    for (const auto& node : nodes_) {
      check_new(names, node.name, node.entry, "name");
      if (!node.address.empty()) check_new(addresses, node.address, node.entry, "address");
    }
  }

  void check_new(std::map<std::string, std::size_t>& known, const std::string& word,
                 std::size_t entry, const char* key) {
    const auto [first, is_new] = known.emplace(word, entry);
    if (is_new) return;
    add(value_of(entry, key).at, element_path("nodes", entry) + "." + key,
        word + " occurs twice; first in line " +
            std::to_string(value_of(first->second, key).at.line));
  }

  /// --nnodes must not be larger than the number of nodes in the file.
  void check_number() {
    const auto* member = setting("nnodes");
    if (member == nullptr || nodes_.empty() || member->value.text.empty()) return;
    const auto range = parse_node_range(member->value.text);
    const auto* wanted = std::get_if<NodeRange>(&range);
    if (wanted == nullptr || wanted->max <= static_cast<int>(nodes_.size())) return;
    add(member->value.at, "rendezvous.nnodes",
        std::to_string(wanted->max) + " are more than the " + std::to_string(nodes_.size()) +
            " nodes of the file");
  }

  /// A loopback address cannot be reached from other nodes.
  void check_addresses() {
    if (nodes_.size() < 2) return;
    const auto is_remote = [](const ConfigNode& node) {
      return !node.address.empty() && !is_loopback(node.address);
    };
    if (std::none_of(nodes_.begin(), nodes_.end(), is_remote)) return;
    constexpr const char* kProblem =
        "is this machine alone, but other nodes have addresses of "
        "the network";
    for (const auto& node : nodes_) {
      if (!is_loopback(node.address)) continue;
      add(value_of(node.entry, "address").at, element_path("nodes", node.entry) + ".address",
          node.address + " " + kProblem);
    }
    for (const char* key : {"rdzv_endpoint", "master_addr"}) {
      const auto* member = setting(key);
      if (member == nullptr || !member->value.is(Kind::string)) continue;
      const auto endpoint = parse_endpoints(member->value.text);
      const auto* parsed = std::get_if<RendezvousEndpoint>(&endpoint);
      if (parsed == nullptr || !is_loopback(parsed->host)) continue;
      add(member->value.at, std::string("rendezvous.") + key, parsed->host + " " + kProblem);
    }
  }

  const JsonMember* setting(const char* key) const {
    const auto* section = root_.find("rendezvous");
    return section == nullptr ? nullptr : section->value.find(key);
  }

  const JsonValue& value_of(std::size_t entry, const char* key) const {
    return entries_->elements[entry].find(key)->value;
  }

  void add(TextPosition at, const std::string& path, const std::string& message) {
    problems_.push_back({at, path, message});
  }

  const JsonValue& root_;
  std::vector<TextProblem>& problems_;
  const JsonValue* entries_ = nullptr;
  std::vector<ConfigNode> nodes_;
};

}  // namespace

std::vector<ConfigNode> read_nodes(const JsonValue& root, std::vector<TextProblem>& problems) {
  return NodesReader(root, problems).read();
}

}  // namespace ddprun
