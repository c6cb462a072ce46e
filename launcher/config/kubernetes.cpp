#include "launcher/cli/option_values.hpp"
#include "launcher/config/scheduler.hpp"
#include "rendezvous/base/text.hpp"

#include <optional>

namespace ddprun {

namespace {

/// The name of a pod of an Indexed Job: "train-3.peers.ml.svc.cluster.local".
struct PodName {
  std::string job;     ///< "train"
  std::string domain;  ///< ".peers.ml.svc.cluster.local"; empty: not known
};

std::optional<PodName> parse_pod_name(const std::string& host_name, const std::string& index) {
  const auto dot = host_name.find('.');
  const auto label = host_name.substr(0, dot);
  const auto ending = "-" + index;
  if (label.size() <= ending.size() || !label.ends_with(ending)) return std::nullopt;
  return PodName{label.substr(0, label.size() - ending.size()),
                 dot == std::string::npos ? "" : host_name.substr(dot)};
}

class KubernetesReader {
 public:
  explicit KubernetesReader(const SchedulerClues& clues) : clues_(clues) {}

  SchedulerValues read() {
    const auto index = clues_.environment("JOB_COMPLETION_INDEX").value_or("");
    if (has_many_nodes()) {
      note_variables();
      if (!index.empty()) add_pod(index);
      if (!problem_.empty()) return UsageProblem{{problem_}};
    }
    const bool is_pod = !index.empty() || clues_.environment("KUBERNETES_SERVICE_HOST");
    const std::string origin = is_pod ? "from Kubernetes: " : "from the environment: ";
    if (!applied_values_.empty())
      values_.settings.notes.push_back(origin + join(applied_values_, ", "));
    return std::move(values_);
  }

 private:
  /// Jobs with many independent pods are indexed, too; a number of nodes marks the pods as one run.
  bool has_many_nodes() const {
    if (clues_.environment("TORCHELASTIC_RUN_ID") || is_given("standalone")) return false;
    const auto nnodes = value_of(clues_.given, "nnodes");
    if (!nnodes) return false;
    const auto range = parse_node_range(nnodes->value);
    const auto* parsed = std::get_if<NodeRange>(&range);
    return parsed != nullptr && parsed->max > 1;
  }

  /// A controller that the operator does not know may have set the variables.
  void note_variables() {
    for (const auto* name : {"nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id",
                             "node_rank", "master_addr", "master_port"}) {
      const auto value = value_of(clues_.given, name);
      if (value && value->where.rfind("PET_", 0) == 0) applied_values_.push_back(value->where);
    }
  }

  void add_pod(const std::string& index) {
    const auto where = "JOB_COMPLETION_INDEX=" + index;
    if (!is_given("node_rank")) add("node_rank", index, where);
    const auto pod = parse_pod_name(clues_.host_name, index);
    if (!pod) return;
    const bool has_endpoint = is_given("rdzv_endpoint") || is_given("master_addr");
    if (!has_endpoint && pod->domain.empty()) {
      problem_ =
          "from Kubernetes: the host name " + clues_.host_name +
          " has no domain, so the other pods have no known names; give the pods of the Job a "
          "subdomain (spec.template.spec.subdomain), the name of a headless service "
          "(clusterIP: None) that selects them, or set --master_addr";
    } else if (!has_endpoint) {
      const auto backend = value_of(clues_.given, "rdzv_backend");
      const bool is_static =
          rendezvous_backend_or_default(backend ? backend->value : "") == RendezvousBackend::fixed;
      add(is_static ? "master_addr" : "rdzv_endpoint", pod->job + "-0" + pod->domain,
          "the host name " + clues_.host_name);
    }
    if (!is_given("rdzv_id")) add("rdzv_id", pod->job, "the host name " + clues_.host_name);
  }

  void add(const char* name, const std::string& value, const std::string& where) {
    values_.options[find_option(name)] = {value, where};
    applied_values_.push_back(std::string(name) + " " + value + " (" + where + ")");
  }

  bool is_given(const char* name) const { return clues_.given.contains(find_option(name)); }

  const SchedulerClues& clues_;
  ConfigValues values_;
  std::vector<std::string> applied_values_;
  std::string problem_;
};

}  // namespace

SchedulerValues values_from_kubernetes(const SchedulerClues& clues) {
  return KubernetesReader(clues).read();
}

SchedulerValues values_from_scheduler(const SchedulerClues& clues) {
  const bool is_slurm = clues.environment("SLURM_JOB_ID").has_value();
  return is_slurm ? values_from_slurm(clues) : values_from_kubernetes(clues);
}

}  // namespace ddprun
