// What a batch's outputs are measured by, and the gradient of that.
#pragma once

#include "trainers/trainer/device_batch.hpp"
#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

#include <string>

namespace trainer {

class Loss {
 public:
  /// cross_entropy: of logits [rows, classes] against the batch's labels. mse: the mean over the
  /// columns of the squared error against the batch's targets.
  Loss(const Place& place, const std::string& name);

  /// Adds the sum over the rows to `total`, [1] float64 on the device, and puts in place of
  /// `output` scale * d(sum)/d(output), or with a scale of 0 anything. The scale is the caller's,
  /// who alone knows over how many samples of all workers the mean is taken.
  void run(const Matrix& output, const DeviceBatch& batch, double scale, const Buffer& total);

 private:
  Place place_;
  bool has_classes_;
  Matrix losses_;  ///< [rows, 1]
};

}  // namespace trainer
