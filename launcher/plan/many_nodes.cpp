#include "launcher/plan/many_nodes.hpp"

#include "launcher/plan/describe_plan.hpp"
#include "rendezvous/etcd/record_bounds.hpp"
#include "rendezvous/membership/join_checks.hpp"

#include <algorithm>
#include <filesystem>

namespace ddprun {

namespace {

// Defaults of torchrun.
constexpr std::uint16_t kDynamicPort = 29400;
constexpr std::uint16_t kStaticPort = 29500;

/// Default of etcd.
constexpr std::uint16_t kEtcdPort = 2379;

/// Returns the command without the folder of the program, which may differ between nodes. Empty
/// with a configuration file, which is compared as a whole.
std::string command_of(const LaunchOptions& options) {
  if (!options.from_config.hash.empty()) return {};
  auto command = shell_quoted(std::filesystem::path(options.program).filename().string());
  for (const auto& argument : options.program_arguments) command += " " + shell_quoted(argument);
  return command;
}

std::string range_text(const NodeRange& range) {
  const auto most = std::to_string(range.max);
  return range.min == range.max ? most : std::to_string(range.min) + ":" + most;
}

std::string unknown_port(const std::string& option, std::uint16_t usual) {
  return option + ": the port must be known to all nodes, not 0; without one it is " +
         std::to_string(usual);
}

class NodesPlanner {
 public:
  NodesPlanner(const LaunchOptions& options, std::vector<std::string>& problems,
               std::vector<std::string>& warnings)
      : options_(options), problems_(problems), warnings_(warnings) {}

  NodesPlan make(const RdzvConf& conf, const std::string& host_name) {
    plan_.settings = conf.settings;
    plan_.settings.run_id = run_id_of_nodes(options_);
    plan_.settings.config_hash = options_.from_config.hash;
    plan_.settings.nodes_min = options_.nnodes.min;
    plan_.settings.nodes_max = options_.nnodes.max;
    plan_.settings.expected_nodes = options_.from_config.names_in_run;
    plan_.settings.restarts = restart_settings(options_);
    // Includes the time for recording stacks.
    plan_.settings.shutdown_timeout =
        options_.shutdown_timeout + (options_.stacks == StacksWhen::never
                                         ? std::chrono::milliseconds(0)
                                         : StackLimits().together);
    plan_.name = name_of_node(host_name);
    plan_.command = command_of(options_);
    plan_.node_rank = options_.node_rank.value_or(conf.rank.value_or(-1));
    plan_.is_host = conf.is_host;
    conf_etcd_ = conf.etcd;
    if (options_.standalone) {
      problem("--standalone contradicts --nnodes=" + range_text(options_.nnodes));
      return std::move(plan_);  // other missing options would be consequences
    }
    choose_backend();
    check_keys_of_etcd();
    choose_security();
    if (const auto text = objection_to_name(plan_.name, plan_.settings)) {
      problem(*text);
    }
    if (plan_.node_rank >= options_.nnodes.max) {
      problem("--node_rank=" + std::to_string(plan_.node_rank) + ": there are " +
              std::to_string(options_.nnodes.max) + " nodes (0 to " +
              std::to_string(options_.nnodes.max - 1) + ")");
    }
    return std::move(plan_);
  }

 private:
  /// Returns the configured name, or the host name.
  std::string name_of_node(const std::string& host_name) const {
    const auto& config = options_.from_config;
    if (config.own_node) return config.nodes[*config.own_node].name;
    return options_.local_addr.empty() ? host_name : options_.local_addr;
  }

  void choose_backend() {
    switch (options_.rdzv_backend) {
      case RendezvousBackend::fixed:
        return choose_static();
      case RendezvousBackend::c10d:
        return choose_dynamic();
      case RendezvousBackend::etcd:
      case RendezvousBackend::etcd_v2:
        return choose_etcd();
    }
  }

  /// A run that requests TLS must not start without it.
  void check_keys_of_etcd() {
    if (plan_.etcd) return;
    if (conf_etcd_.tls) {
      problem(
          "--rdzv_conf=protocol=https: is for --rdzv_backend=etcd; between nodes nothing is "
          "encrypted");
    }
    for (const char* key : {"etcd_prefix", "etcd_lease_timeout"}) {
      if (!options_.rdzv_conf.contains(key)) continue;
      warnings_.push_back(std::string("--rdzv_conf=") + key +
                          ": has no effect without --rdzv_backend=etcd");
    }
  }

  /// The node with rank 0 is the host; --rdzv_endpoint overrides --master_addr as in torchrun.
  void choose_static() {
    const auto& range = options_.nnodes;
    if (range.min != range.max) {
      problem("--nnodes=" + range_text(range) +
              ": --rdzv_backend=static has a fixed number of nodes; c10d takes a range");
    }
    plan_.is_rank_assumed = plan_.node_rank < 0;
    if (plan_.is_rank_assumed) {
      // Like in torchrun, the endpoint's address decides whether this node is the host.
      plan_.node_rank = 0;
    } else if (!plan_.is_host) {
      plan_.is_host = plan_.node_rank == 0;
    }
    const auto& endpoint = options_.rdzv_endpoint;
    plan_.endpoint_host = endpoint.host.empty() ? options_.master_addr : endpoint.host;
    const bool has_port = endpoint.port != 0 || endpoint.is_any_port;
    const bool takes_master_port = !has_port && options_.master_port;
    plan_.endpoint_port = takes_master_port ? *options_.master_port : port_of_endpoint(kStaticPort);
    check_endpoint("--master_addr or --rdzv_endpoint",
                   takes_master_port ? "--master_port" : "--rdzv_endpoint", kStaticPort);
  }

  void choose_dynamic() {
    plan_.endpoint_host = options_.rdzv_endpoint.host;
    plan_.endpoint_port = port_of_endpoint(kDynamicPort);
    check_endpoint("--rdzv_endpoint", "--rdzv_endpoint", kDynamicPort);
  }

  /// Returns the given port or the default.
  std::uint16_t port_of_endpoint(std::uint16_t usual) const {
    const auto& endpoint = options_.rdzv_endpoint;
    return endpoint.port != 0 || endpoint.is_any_port ? endpoint.port : usual;
  }

  void choose_security() {
    check_store_port();
    if (!options_.secret_file.empty()) {
      // Without a secret any client could read it.
      plan_.settings.config_outline = options_.from_config.outline;
      if (options_.is_open) problem("--security=open and --secret_file exclude each other");
    } else if (options_.is_open_by_default && !options_.is_open) {
      warnings_.emplace_back(
          "any machine that reaches this run's nodes can take part in it; --secret_file keeps "
          "others out");
    } else if (!options_.is_open) {
      const auto& origin = options_.from_config.nodes_from;
      const auto nodes = range_text(options_.nnodes);
      problem((origin.empty() ? "--nnodes=" + nodes + " needs"
                              : nodes + " nodes (from " + origin + ") need a shared secret:") +
              " --secret_file=FILE ('ddprun keygen FILE' writes it; copy it to all nodes), or "
              "--security=open on a trusted network");
    }
  }

  /// Any node may be elected as host, with its own address.
  void choose_etcd() {
    auto& etcd = plan_.etcd.emplace(conf_etcd_);
    const auto& first = options_.rdzv_endpoint;
    add_etcd_endpoint(first);
    for (const auto& other : first.others) add_etcd_endpoint(other);
    etcd.local_addr = options_.local_addr;
    etcd.port = options_.master_port.value_or(0);
    check_etcd_times(plan_.settings, etcd.lease);
    bound_record(plan_.settings);
    if (first.host.empty()) problem("--rdzv_endpoint is missing; give etcd's address, HOST:2379");
    if (options_.rdzv_id.empty()) {
      problem("--rdzv_id is missing; give the run a name, since etcd may serve several runs");
    }
    if (!options_.master_addr.empty()) {
      problem("--master_addr=" + options_.master_addr +
              ": with --rdzv_backend=etcd a node is elected");
    }
    if (plan_.is_host) problem("--rdzv_conf=is_host: with --rdzv_backend=etcd a node is elected");
  }

  void check_etcd_times(membership::Settings& settings, std::chrono::seconds lease) {
    const auto text = "etcd_lease_timeout (" + std::to_string(lease.count()) + " s)";
    // At the end of lease_timeout the workers of a hanging host are killed; at the end of
    // etcd_lease_timeout another host may be elected.
    if (settings.lease > lease) {
      problem("--rdzv_conf=lease_timeout: must not be more than " + text);
    }
    if (settings.rejoin_timeout <= 2 * lease) {
      problem("--rdzv_conf=rejoin_timeout: must be more than twice " + text +
              ", since another host is elected after that time");
    }
    // A coordinator that takes longer has lost its lease.
    settings.answer_timeout = lease;
  }

  /// etcd limits the size of values.
  void bound_record(membership::Settings& settings) {
    settings.recorded_name_bytes_max = etcd::name_bytes_max(options_.nnodes.max);
    const auto most = etcd::kRestartAgesMax;
    if (settings.restarts.window.count() > 0 && settings.restarts.max_restarts > most) {
      problem("--max_restarts=" + std::to_string(settings.restarts.max_restarts) + ": at most " +
              std::to_string(most) +
              " with --restart_window and --rdzv_backend=etcd, which keeps the time of each");
    }
  }

  void add_etcd_endpoint(const RendezvousEndpoint& given) {
    plan_.etcd->endpoints.push_back(
        {.host = given.host, .port = given.port != 0 ? given.port : kEtcdPort});
    if (given.is_any_port) problem(unknown_port("--rdzv_endpoint", kEtcdPort));
  }

  void check_store_port() {
    const auto port = plan_.settings.store_port;
    if (port == 0) return;
    const auto given = "--rdzv_conf=store_port=" + std::to_string(port) + ": ";
    if (options_.secret_file.empty()) {
      problem(given + "without a secret the store is at the port of the rendezvous");
    } else if (port == plan_.endpoint_port) {
      problem(given + "the rendezvous is at that port");
    }
  }

  void check_endpoint(const std::string& option, const std::string& port_option,
                      std::uint16_t usual_port) {
    if (plan_.endpoint_host.empty()) {
      problem(option + " is missing; give the address of one node, the same on all nodes");
    }
    if (!options_.rdzv_endpoint.others.empty()) {
      problem("--rdzv_endpoint: several addresses; only etcd accepts more than one");
    }
    // Several colons are an IPv6 address.
    const auto colon = plan_.endpoint_host.find(':');
    if (colon != std::string::npos && colon == plan_.endpoint_host.rfind(':')) {
      problem("--master_addr=" + plan_.endpoint_host +
              ": is an address and a port; --master_port takes the port");
    }
    if (plan_.endpoint_port == 0) problem(unknown_port(port_option, usual_port));
  }

  void problem(const std::string& text) { problems_.push_back(text); }

  const LaunchOptions& options_;
  std::vector<std::string>& problems_;
  std::vector<std::string>& warnings_;
  etcd::EtcdSettings conf_etcd_;
  NodesPlan plan_;
};

}  // namespace

bool has_many_nodes(const LaunchOptions& options) {
  return options.nnodes.max > 1;
}

NodesPlan plan_nodes(const LaunchOptions& options, const RdzvConf& conf,
                     const std::string& host_name, std::vector<std::string>& problems,
                     std::vector<std::string>& warnings) {
  return NodesPlanner(options, problems, warnings).make(conf, host_name);
}

std::string run_id_of_nodes(const LaunchOptions& options) {
  // Default of torchrun.
  return options.rdzv_id.empty() ? "none" : options.rdzv_id;
}

}  // namespace ddprun
