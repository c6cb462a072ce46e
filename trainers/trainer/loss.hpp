// Loss of a batch and its gradient.
#pragma once

#include "trainers/trainer/device_batch.hpp"
#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

#include <string>

namespace trainer {

class Loss {
 public:
  /// `name`: cross_entropy, of logits [rows, classes] and the batch's labels; or mse, the mean
  /// squared error over the columns to the batch's targets.
  Loss(const Place& place, const std::string& name);

  /// Adds the sum over the rows to `total`, [1] float64 on the device, and replaces `output` by
  /// scale * d(sum)/d(output), or by unspecified values if scale is 0. The caller chooses the
  /// scale, since it depends on the samples of all workers.
  void run(const Matrix& output, const DeviceBatch& batch, double scale, const Buffer& total);

 private:
  Place place_;
  bool has_classes_;
  Matrix losses_;  ///< [rows, 1]
};

}  // namespace trainer
