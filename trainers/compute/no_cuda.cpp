#include "trainers/compute/compute.hpp"
#include <ddprun/error.hpp>

namespace trainer {

std::unique_ptr<Compute> make_cuda_compute(int, bool) {
  throw ddprun::Error(ddprun::Errc::usage,
                      "this program was built without CUDA: it computes on the CPU only "
                      "(-D DDPRUN_GPT2=ON and the CUDA toolkit add CUDA)");
}

}  // namespace trainer
