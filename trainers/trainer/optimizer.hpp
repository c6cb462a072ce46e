// Optimizers with PyTorch's update rules. Their state is a list of arrays, so that checkpoints do
// not depend on the kind of optimizer.
#pragma once

#include "trainers/trainer/parameter.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trainer {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates the parameters by their gradients. `step`: number of the update, from 1.
  virtual void update(std::span<Parameter* const> parameters, std::int64_t step,
                      float learning_rate) = 0;

  /// Returns the complete state apart from the step number.
  virtual std::vector<StateBuffer*> state() = 0;
};

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(std::span<Parameter* const> parameters, float momentum);
  void update(std::span<Parameter* const> parameters, std::int64_t step,
              float learning_rate) override;
  std::vector<StateBuffer*> state() override;

 private:
  float momentum_;
  std::vector<StateBuffer> velocity_;  ///< one per parameter; empty without momentum
};

/// Adam (Kingma and Ba, 2015) with the usual 0.9, 0.999 and 1e-8.
class AdamOptimizer : public Optimizer {
 public:
  explicit AdamOptimizer(std::span<Parameter* const> parameters);
  void update(std::span<Parameter* const> parameters, std::int64_t step,
              float learning_rate) override;
  std::vector<StateBuffer*> state() override;

 private:
  std::vector<StateBuffer> mean_;    ///< mean of the gradient, one per parameter
  std::vector<StateBuffer> square_;  ///< mean of the squared gradient, one per parameter
};

}  // namespace trainer
