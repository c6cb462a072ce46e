#include "trainers/trainer/loss.hpp"

namespace trainer {

Loss::Loss(const Place& place, const std::string& name)
    : place_(place), has_classes_(name == "cross_entropy") {}

void Loss::run(const Matrix& output, const DeviceBatch& batch, double scale, const Buffer& total) {
  if (output.rows == 0) return;
  Compute& compute = *place_.compute;
  losses_.reshape(compute, place_.exact_type(), output.rows, 1);
  if (has_classes_) {
    compute.run(CrossEntropy{.logits = output.buffer(),
                             .targets = batch.labels,
                             .losses = losses_.buffer(),
                             .rows = output.rows,
                             .columns = output.columns,
                             .classes = output.columns,
                             .gradient_scale = scale});
  } else {
    compute.run(MeanSquaredError{.output = output.buffer(),
                                 .targets = batch.targets,
                                 .losses = losses_.buffer(),
                                 .rows = output.rows,
                                 .columns = output.columns,
                                 .gradient_scale = scale});
  }
  compute.run(AddSum{.values = losses_.buffer(), .total = total, .elements = output.rows});
}

}  // namespace trainer
