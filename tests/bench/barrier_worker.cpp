// A worker that meets the others, passes one barrier with them and ends: barrier_worker [BACKEND].
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

int main(int argc, char** argv) {
  ddprun::GroupOptions options;
  options.backend = argc > 1 ? argv[1] : "auto";
  return ddprun::run_worker([&options](const ddprun::WorkerEnv& env) {
    ddprun::ProcessGroup::create(env, options).barrier().wait();
    return 0;
  });
}
