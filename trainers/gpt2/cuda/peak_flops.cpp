#include "trainers/gpt2/cuda/cuda_compute.hpp"

#include <algorithm>
#include <iterator>

namespace trainer::cuda {

namespace {

/// Operations per clock of a multiprocessor, from NVIDIA's architecture papers; products with
/// float32 sums, without sparsity.
struct Rate {
  int capability;
  double float32;
  double bfloat16;
};

constexpr Rate kRates[] = {{80, 128, 2048}, {86, 256, 512},   {87, 256, 1024}, {89, 256, 1024},
                           {90, 256, 4096}, {100, 256, 8192}, {120, 256, 1024}};

}  // namespace

double peak_flops(bool is_bfloat16, int capability_major, int capability_minor, int multiprocessors,
                  int kilohertz) {
  const int capability = 10 * capability_major + capability_minor;
  const auto* rate = std::find_if(std::begin(kRates), std::end(kRates),
                                  [=](const Rate& one) { return one.capability == capability; });
  if (rate == std::end(kRates)) return 0;
  const double operations = is_bfloat16 ? rate->bfloat16 : rate->float32;
  return operations * multiprocessors * kilohertz * 1000.0;
}

}  // namespace trainer::cuda
