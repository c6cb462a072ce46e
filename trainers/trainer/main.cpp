#include <ddprun/worker.hpp>

#include <cstdio>

int main() {
  return ddprun::run_worker([](const ddprun::WorkerEnv& env) {
    std::printf("worker %d of %d\n", env.rank, env.world_size);
    return 0;
  });
}
