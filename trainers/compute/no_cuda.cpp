#include "trainers/compute/compute.hpp"
#include <ddprun/error.hpp>

namespace trainer {

std::unique_ptr<Compute> make_cuda_compute(int, bool) {
  throw ddprun::Error(ddprun::Errc::usage,
                      "this program was built without CUDA: it computes on the CPU only");
}

}  // namespace trainer
