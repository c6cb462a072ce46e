#include "launcher/plan/single_node.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

constexpr const char* kOneNode = "this version of ddprun runs on one node";

void check_nodes(const LaunchOptions& options, std::vector<std::string>& problems) {
  const auto& nodes = options.nnodes;
  if (nodes.most > 1) {
    const auto range = nodes.least == nodes.most
                           ? std::to_string(nodes.most)
                           : std::to_string(nodes.least) + ":" + std::to_string(nodes.most);
    problems.push_back("--nnodes=" + range + ": " + kOneNode);
  }
  if (options.node_rank != 0) {
    problems.push_back("--node_rank=" + std::to_string(options.node_rank) + ": " + kOneNode +
                       ", whose rank is 0");
  }
}

void check_rendezvous(const LaunchOptions& options, std::vector<std::string>& problems,
                      std::vector<std::string>& notes) {
  const std::vector<std::string> backends = {"static", "c10d"};
  const auto& backend = options.rdzv_backend;
  if (backend.rfind("etcd", 0) == 0) {
    problems.push_back("--rdzv_backend=" + backend + ": " + kOneNode +
                       " and needs no etcd; use static or c10d");
  } else if (std::find(backends.begin(), backends.end(), backend) == backends.end()) {
    problems.push_back("--rdzv_backend=" + backend + ": is neither static nor c10d");
  }
  const std::vector<std::string> known = {"join_timeout",        "last_call_timeout",
                                          "close_timeout",       "heartbeat_timeout",
                                          "keep_alive_interval", "keep_alive_max_attempt",
                                          "read_timeout",        "is_host",
                                          "store_type",          "timeout",
                                          "use_libuv",           "rank"};
  for (const auto& [key, value] : options.rdzv_conf) {
    const auto where = "--rdzv_conf=" + key + "=" + value + ": ";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const auto nearest = nearest_word(key, known);
      problems.push_back(where + "unknown key" +
                         (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    } else if (key == "is_host" && (value == "0" || value == "false" || value == "False")) {
      problems.push_back(where + kOneNode + ", which must host the store");
    } else if (key == "rank" && value != "0") {
      problems.push_back(where + kOneNode + ", whose rank is 0");
    } else if (key == "store_type" && value != "tcp") {
      problems.push_back(where + "the only store is tcp");
    }
  }
  if (!options.rdzv_conf.empty()) notes.emplace_back("--rdzv_conf has no effect on one node");
}

void check_unsupported(const LaunchOptions& options, std::vector<std::string>& problems) {
  if (options.run_path) {
    problems.emplace_back(
        "--run_path: is not supported, as ddprun holds no Python interpreter; without it the "
        "script runs in an interpreter of its own");
  }
  if (!options.logs_specs.empty() && options.logs_specs != "default") {
    problems.push_back("--logs_specs=" + options.logs_specs +
                       ": is not supported, as it names a Python plug-in; see --log_dir");
  }
  if (options.event_log_handler != "null") {
    problems.push_back("--event_log_handler=" + options.event_log_handler +
                       ": only null is supported; --events FILE records what happens");
  }
}

std::string bindable(const std::string& host) {
  // Workers and store must agree on the address, and some machines resolve the name to ::1 first.
  return host == "localhost" || host.empty() ? "127.0.0.1" : host;
}

}  // namespace

void check_single_node(const LaunchOptions& options, std::vector<std::string>& problems,
                       std::vector<std::string>& notes) {
  check_nodes(options, problems);
  check_rendezvous(options, problems, notes);
  check_unsupported(options, problems);
  const bool has_address = options.rdzv_endpoint.port != 0 || options.master_port.value_or(0) != 0;
  if (options.standalone && has_address) {
    notes.emplace_back("--standalone: the store takes a free port, not the one given");
  }
}

StoreAddress store_address(const LaunchOptions& options, bool uses_agent_store) {
  if (options.standalone) {
    return {.worker_port = uses_agent_store ? std::optional<std::uint16_t>() : 0};
  }
  StoreAddress address{bindable(options.local_addr), 0};
  if (!options.rdzv_endpoint.host.empty()) address.host = bindable(options.rdzv_endpoint.host);
  if (!options.master_addr.empty()) address.host = bindable(options.master_addr);
  if (uses_agent_store) {
    address.port = options.master_port.value_or(options.rdzv_endpoint.port);
  } else {
    address.port = options.rdzv_endpoint.port;
    address.worker_port = options.master_port.value_or(0);
  }
  return address;
}

}  // namespace ddprun
