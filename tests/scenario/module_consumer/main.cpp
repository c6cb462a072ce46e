// module_consumer BACKEND: sums the ranks over that backend, with the installed package.
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <cstdio>

int main(int, char** argv) {
  return ddprun::run_worker([&](const ddprun::WorkerEnv& env) {
    auto group = ddprun::ProcessGroup::create(env, {.backend = argv[1]});
    auto sum = static_cast<float>(env.rank);
    group.all_reduce(ddprun::as_buffer(&sum, 1)).wait();
    std::printf("the sum of all ranks is %.0f over %s\n", sum, group.backend().c_str());
    return 0;
  });
}
