#include "launcher/plan/single_node.hpp"

#include <algorithm>

namespace ddprun {

namespace {

/// Like torchrun, ignores the rank unless a static address means that another node has rank 0.
void check_node_rank(const LaunchOptions& options, std::vector<std::string>& problems,
                     std::vector<std::string>& warnings) {
  if (options.node_rank.value_or(0) == 0) return;
  const auto option = "--node_rank=" + std::to_string(*options.node_rank);
  const bool has_address = !options.rdzv_endpoint.host.empty() || options.master_port;
  const bool is_static = options.rdzv_backend == RendezvousBackend::fixed && has_address;
  if (is_static && !options.standalone) {
    problems.push_back(option + ": there is one node, whose rank is 0; see --nnodes");
  } else {
    warnings.push_back(option + ": is ignored, as there is one node; see --nnodes");
  }
}

void check_rendezvous(const LaunchOptions& options, const RdzvConf& conf,
                      std::vector<std::string>& problems, std::vector<std::string>& notes) {
  if (!options.rdzv_endpoint.others.empty() && !is_etcd(options.rdzv_backend)) {
    problems.emplace_back("--rdzv_endpoint: several addresses; only etcd accepts more than one");
  }
  if (!conf.is_host.value_or(true)) {
    problems.emplace_back("--rdzv_conf=is_host: the only node must host the store");
  }
  if (conf.rank.value_or(0) != 0) {
    problems.emplace_back("--rdzv_conf=rank: there is one node, whose rank is 0");
  }
  if (!options.secret_file.empty()) notes.emplace_back("--secret_file has no effect on one node");
  if (std::any_of(options.rdzv_conf.begin(), options.rdzv_conf.end(),
                  [](const auto& entry) { return entry.first != "check_users"; })) {
    notes.emplace_back("--rdzv_conf has no effect on one node, except for check_users");
  }
}

std::string bindable(const std::string& host) {
  // Workers and store must agree on the address, and some machines resolve the name to ::1 first.
  return host == "localhost" || host.empty() ? "127.0.0.1" : host;
}

/// Without etcd's address.
RendezvousEndpoint endpoint_of_store(const LaunchOptions& options) {
  return is_etcd(options.rdzv_backend) ? RendezvousEndpoint() : options.rdzv_endpoint;
}

}  // namespace

void check_unsupported(const LaunchOptions& options, std::vector<std::string>& problems,
                       std::vector<std::string>& warnings) {
  if (!options.logs_specs.empty() && options.logs_specs != "default") {
    problems.push_back("--logs_specs=" + options.logs_specs +
                       ": is not supported, as it names a Python plug-in; see --log_dir");
  }
  const auto& handler = options.event_log_handler;
  if (!handler.empty() && handler != "null") {
    warnings.push_back("--event_log_handler=" + handler +
                       ": has no effect; --events=FILE records what happens");
  }
}

void check_single_node(const LaunchOptions& options, const RdzvConf& conf,
                       std::vector<std::string>& problems, std::vector<std::string>& warnings,
                       std::vector<std::string>& notes) {
  check_node_rank(options, problems, warnings);
  if (is_etcd(options.rdzv_backend)) {
    warnings.emplace_back(
        "--rdzv_backend: etcd and its address are ignored, as there is one node; see --nnodes");
  }
  check_rendezvous(options, conf, problems, notes);
  const bool has_address =
      endpoint_of_store(options).port != 0 || options.master_port.value_or(0) != 0;
  if (options.standalone && has_address) {
    notes.emplace_back("--standalone: the store takes a free port, not the one given");
  }
}

StoreAddress store_address(const LaunchOptions& options, bool uses_agent_store) {
  if (options.standalone) {
    return {.worker_port = uses_agent_store ? std::optional<std::uint16_t>() : 0};
  }
  const auto endpoint = endpoint_of_store(options);
  StoreAddress address{bindable(options.local_addr), 0};
  if (!options.master_addr.empty()) address.host = bindable(options.master_addr);
  if (!endpoint.host.empty()) address.host = bindable(endpoint.host);
  if (uses_agent_store) {
    address.port = endpoint.port != 0 ? endpoint.port : options.master_port.value_or(0);
  } else {
    address.port = endpoint.port;
    address.worker_port = options.master_port.value_or(0);
  }
  return address;
}

}  // namespace ddprun
