// A worker program outside the source tree: sums the ranks over all workers.
#include <cstdio>

#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

int main() {
  return ddprun::run_worker([](const ddprun::WorkerEnv& env) {
    auto group = ddprun::ProcessGroup::create(env);
    auto rank = static_cast<float>(env.rank);
    group.all_reduce(ddprun::as_buffer(&rank, 1)).wait();
    std::printf("sum of ranks %.0f\n", rank);
    return 0;
  });
}
