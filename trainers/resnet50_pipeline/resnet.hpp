// ResNet-50 (He et al. 2015, with the stride in the middle convolution of a bottleneck), whole or
// as the two stages of a pipeline.
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>

namespace trainer::resnet50 {

/// Returns stage `stage` of `stages`, 1 or 2. The first of two maps images [n, 3, side, side] to
/// [n, 512, side / 8, side / 8] after layer2; the second maps these to scores [n, classes]. The
/// initial values depend on `seed` only, not on `stages`.
torch::nn::Sequential make_stage(int stage, int stages, std::int64_t classes, std::uint64_t seed);

}  // namespace trainer::resnet50
