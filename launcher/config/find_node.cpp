#include "launcher/config/find_node.hpp"

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

std::string first_label(const std::string& name) {
  return name.substr(0, name.find('.'));
}

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Maximum number of names in a message.
std::string some_of(std::vector<std::string> words) {
  constexpr std::size_t kShown = 8;
  if (words.empty()) return "none";
  if (words.size() > kShown) {
    const auto more = "and " + std::to_string(words.size() - kShown) + " more";
    words.resize(kShown);
    words.push_back(more);
  }
  return join(words, ", ");
}

class Finder {
 public:
  Finder(const ConfigFile& file, const NodeClues& clues) : file_(file), clues_(clues) {}

  std::variant<FoundNode, UsageProblem> find() {
    if (file_.nodes.empty()) return without_nodes();
    if (clues_.node_name) return by_name();
    if (clues_.node_rank) return by_index(clues_.node_rank->value, clues_.node_rank->where);
    if (const auto found = by_host_name()) return *found;
    if (const auto found = by_address()) return *found;
    for (const char* variable : {"SLURM_NODEID", "JOB_COMPLETION_INDEX"}) {
      const auto value = clues_.environment(variable);
      if (value && !value->empty()) return by_index(*value, variable + ("=" + *value));
    }
    return not_found();
  }

 private:
  std::variant<FoundNode, UsageProblem> without_nodes() const {
    if (clues_.node_name) {
      return problem(clues_.node_name->where + ": " + file_.name + " names no nodes");
    }
    const auto& names = clues_.host_names;
    return FoundNode{names.empty() ? "localhost" : first_label(names.front()), {}, ""};
  }

  std::variant<FoundNode, UsageProblem> by_name() const {
    const auto& name = clues_.node_name->value;
    const auto& where = clues_.node_name->where;
    const auto matches = nodes_where([&](const ConfigNode& node) { return node.name == name; });
    if (matches.empty()) {
      std::vector<std::string> names;
      for (const auto& node : file_.nodes) names.push_back(node.name);
      const auto nearest = nearest_word(name, names);
      return problem(
          where + ": " + file_.name + " lists no such node" +
          (nearest.empty() ? "; it lists " + some_of(names) : "; did you mean " + nearest + "?"));
    }
    if (clues_.node_rank && clues_.node_rank->value != std::to_string(matches.front())) {
      return problem(where + " is node " + std::to_string(matches.front()) + " of " + file_.name +
                     ", which " + clues_.node_rank->where + " contradicts; remove one of them");
    }
    return found(matches.front(), "set by " + where);
  }

  std::variant<FoundNode, UsageProblem> by_index(const std::string& text,
                                                 const std::string& where) const {
    const int last = static_cast<int>(file_.nodes.size()) - 1;
    const auto index = parse_integer(text, 0, last);
    if (const auto* wrong = std::get_if<ValueProblem>(&index)) {
      return problem(where + ": " + wrong->text + ", the indices of the nodes of " + file_.name);
    }
    return found(static_cast<std::size_t>(std::get<int>(index)), "set by " + where);
  }

  std::optional<FoundNode> by_host_name() {
    for (const bool is_short : {false, true}) {
      const auto form = [&](const std::string& name) {
        return is_short ? first_label(name) : name;
      };
      std::vector<std::string> ours;
      for (const auto& name : clues_.host_names) ours.push_back(form(name));
      const auto matches = nodes_where([&](const ConfigNode& node) {
        return is_one_of(form(node.name), ours) ||
               (!is_short && !node.address.empty() && is_one_of(node.address, ours));
      });
      if (auto only = only_of(matches, "its host name is " + some_of(clues_.host_names))) {
        return only;
      }
    }
    return std::nullopt;
  }

  std::optional<FoundNode> by_address() {
    const auto matches = nodes_where([&](const ConfigNode& node) {
      return !node.address.empty() && is_one_of(node.address, clues_.addresses);
    });
    if (matches.size() != 1) return only_of(matches, "");
    return found(matches.front(),
                 "an interface has the address " + file_.nodes[matches.front()].address);
  }

  /// Returns the only match. Several matches are kept for the message in case no other criterion
  /// matches.
  std::optional<FoundNode> only_of(const std::vector<std::size_t>& matches,
                                   const std::string& how) {
    if (matches.size() == 1) return found(matches.front(), how);
    if (matches.size() > 1 && several_.empty()) several_ = matches;
    return std::nullopt;
  }

  std::variant<FoundNode, UsageProblem> not_found() const {
    constexpr const char* kHint = "; use --node_name to select this node's entry";
    if (!several_.empty()) {
      std::vector<std::string> entries;
      for (const auto index : several_) {
        entries.push_back(file_.nodes[index].name + " (line " + std::to_string(line_of(index)) +
                          ")");
      }
      return problem(file_.name + ": this machine may be any of " + some_of(entries) + kHint);
    }
    std::vector<std::string> nodes;
    for (const auto& node : file_.nodes) {
      nodes.push_back(node.name + (node.address.empty() ? "" : " (" + node.address + ")"));
    }
    return problem(file_.name + ": none of its nodes is this machine: its host names are " +
                   some_of(clues_.host_names) + ", its addresses " + some_of(clues_.addresses) +
                   "; the file lists " + some_of(nodes) + kHint);
  }

  template <typename Condition>
  std::vector<std::size_t> nodes_where(const Condition& condition) const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
      if (condition(file_.nodes[i])) indices.push_back(i);
    }
    return indices;
  }

  int line_of(std::size_t index) const {
    return file_.root.find("nodes")->value.elements[file_.nodes[index].entry].at.line;
  }

  FoundNode found(std::size_t index, const std::string& how) const {
    return {file_.nodes[index].name, index, how};
  }

  static UsageProblem problem(const std::string& text) { return UsageProblem{{text}}; }

  const ConfigFile& file_;
  const NodeClues& clues_;
  std::vector<std::size_t> several_;
};

}  // namespace

std::variant<FoundNode, UsageProblem> find_node(const ConfigFile& file, const NodeClues& clues) {
  return Finder(file, clues).find();
}

}  // namespace ddprun
