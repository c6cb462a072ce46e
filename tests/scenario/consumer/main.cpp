#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <cstdio>

int main() {
  return ddprun::run_worker([](const ddprun::WorkerEnv& env) {
    auto group = ddprun::ProcessGroup::create(env);
    auto sum = static_cast<float>(env.rank);
    group.all_reduce(ddprun::as_buffer(&sum, 1)).wait();
    std::printf("the sum of all ranks is %.0f\n", sum);
    return 0;
  });
}
