// Common parts of tests of process groups over several processes: a store and the environment and
// results of ranks.
#pragma once

#include "tests/support/failure_text.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/store.hpp>
#include <ddprun/worker_env.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun::test {

/// A store server in its own process, so that this one, which forks the ranks, has no threads:
/// ThreadSanitizer does not support a forked child of a process with threads.
class StoreProcess {
 public:
  StoreProcess() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const TestStore store;
      const StoreEndpoint& endpoint = store.endpoint();
      if (::write(ends[1], &endpoint.port, sizeof endpoint.port) > 0) ::pause();
      ::_exit(1);
    }
    const ssize_t got = ::read(ends[0], &endpoint_.port, sizeof endpoint_.port);
    ::close(ends[0]);
    ::close(ends[1]);
    REQUIRE(got == sizeof endpoint_.port);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  const StoreEndpoint& endpoint() const { return endpoint_; }
  Store connect() const {
    return Store::connect(endpoint_, Deadline::after(std::chrono::seconds(60)));
  }

 private:
  pid_t pid_ = -1;
  StoreEndpoint endpoint_;
};

/// Environment of a rank on a single node.
inline WorkerEnv make_env(const StoreEndpoint& store, int rank, int size) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = size;
  env.master_addr = store.host;
  env.master_port = store.port;
  return env;
}

/// Environment of `rank` among workers of which `on_nodes[n]` are on node n.
inline WorkerEnv make_env(const StoreEndpoint& store, int rank, const std::vector<int>& on_nodes) {
  WorkerEnv env = make_env(store, rank, 0);
  env.node_count = static_cast<int>(on_nodes.size());
  for (int node = 0; node < env.node_count; ++node) {
    const int ranks = on_nodes[static_cast<std::size_t>(node)];
    const int first = env.world_size;
    env.world_size += ranks;
    if (rank < first || rank >= env.world_size) continue;
    env.node_rank = node;
    env.local_rank = rank - first;
    env.local_world_size = ranks;
  }
  return env;
}

/// Options with little memory and short timeouts.
inline GroupOptions small_group(Deadline::Duration timeout = std::chrono::seconds(60)) {
  GroupOptions options;
  options.backend = "host";
  options.arena_bytes = 32 << 20;
  options.join_timeout = std::chrono::seconds(60);
  options.collective_timeout = timeout;
  return options;
}

}  // namespace ddprun::test
