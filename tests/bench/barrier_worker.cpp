// A worker that joins the default group, passes one barrier and ends: barrier_worker [BACKEND].
// Rank 0 prints the duration of both.
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <chrono>
#include <cstdio>

using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  ddprun::GroupOptions options;
  options.backend = argc > 1 ? argv[1] : "auto";
  return ddprun::run_worker([&options](const ddprun::WorkerEnv& env) {
    const auto begin = Clock::now();
    auto group = ddprun::ProcessGroup::create(env, options);
    const auto joined = Clock::now();
    group.barrier().wait();
    const std::chrono::duration<double> join = joined - begin;
    const std::chrono::duration<double> barrier = Clock::now() - joined;
    if (env.rank == 0)
      std::printf("%d ranks joined in %.3f s, barrier %.3f s, backend %s\n", group.size(),
                  join.count(), barrier.count(), group.backend().c_str());
    return 0;
  });
}
