// Runs of several agents on this machine with an elected host; they know only etcd's endpoint.
#pragma once

#include "tests/support/launch.hpp"
#include "tests/support/locked_worker.hpp"
#include "tests/support/program.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

inline constexpr const char* kNoEtcd = "etcd is not installed (Debian: etcd-server)";
inline constexpr const char* kHosts = "this node hosts the rendezvous";

/// Agents at their own loopback addresses, which know only etcd's endpoint.
class ElectedRun {
 public:
  ElectedRun(std::string endpoints, std::string nnodes, std::string script,
             std::vector<std::string> options = {"--security=open"},
             std::string conf = "last_call_timeout=0.2,lease_timeout=3,etcd_lease_timeout=3")
      : endpoints_(std::move(endpoints)),
        nnodes_(std::move(nnodes)),
        script_(std::move(script)),
        options_(std::move(options)),
        conf_(std::move(conf)) {}

  Program& start(int number, const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"--nnodes=" + nnodes_,
                                        "--rdzv_backend=etcd",
                                        "--rdzv_endpoint=" + endpoints_,
                                        "--rdzv_id=run",
                                        "--local_addr=127.0.0." + std::to_string(number),
                                        "--rdzv_conf=" + conf_};
    options.insert(options.end(), options_.begin(), options_.end());
    options.insert(options.end(), more.begin(), more.end());
    nodes_.push_back(std::make_unique<Program>(launch(options, script_)));
    return *nodes_.back();
  }

  /// Starts an agent and waits until it is elected.
  Program& start_host(int number) {
    auto& host = start(number);
    REQUIRE(host.read_until_contains(kHosts));
    return host;
  }

  /// Call after all agents have ended.
  void check_that_nothing_is_left(const WorkerFolder& workers) const {
    for (const auto& node : nodes_) CHECK(node->leaves_no_process());
    CHECK_FALSE(workers.has_met_twice());
  }

 private:
  std::string endpoints_;
  std::string nnodes_;
  std::string script_;
  std::vector<std::string> options_;
  std::string conf_;
  std::vector<std::unique_ptr<Program>> nodes_;
};

/// Three nodes with workers in the same round; the first hosts the rendezvous. They start in order,
/// since ranks follow it: the second node has rank 1.
struct Three {
  explicit Three(ElectedRun& run)
      : host(run.start_host(2)), second(run.start(3)), third(start_third(run)) {
    RoundWatch rounds;
    for (auto* node : {&host, &second, &third}) REQUIRE(rounds.is_in_round_of(*node, 3));
  }

  Program& host;
  Program& second;
  Program& third;

 private:
  Program& start_third(ElectedRun& run) const {
    REQUIRE(second.read_until_contains("rank 1 of 2"));
    return run.start(4);
  }
};

}  // namespace ddprun::test
