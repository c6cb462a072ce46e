#include "trainers/compute/placement.hpp"

namespace trainer {

std::unique_ptr<Compute> make_compute(const std::string& device, int threads,
                                      const ddprun::WorkerEnv& env) {
  return device == "cuda" ? make_cuda_compute(env.local_rank, env.shares_gpus)
                          : make_cpu_compute(threads);
}

std::string backend_for(const std::string& device, const std::string& wanted) {
  return wanted == "auto" && device == "cuda" ? "nccl" : wanted;
}

}  // namespace trainer
