// Tensor transfer between two stages of a pipeline. An activation is preceded by a header with
// batch, rows, shape and type; a gradient has those of its activation.
#pragma once

#include <ddprun/process_group.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::torch {

/// Rows of a micro-batch within a batch.
struct MicroBatch {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t batch_rows = 0;

  bool is_last() const { return first + rows == batch_rows; }
  bool operator==(const MicroBatch&) const = default;
};

/// Returns text such as "rows 12 to 23 of 120".
std::string describe(const MicroBatch& micro_batch);

class StageLink {
 public:
  StageLink(const ProcessGroup& stages, at::Device device) : group_(stages), device_(device) {}

  int stage() const { return group_.rank(); }
  int stages() const { return group_.size(); }

  void send_activation(const at::Tensor& activation, const MicroBatch& micro_batch);
  /// Blocks. Throws Error{Errc::usage} if the previous stage sends other rows.
  at::Tensor receive_activation(const MicroBatch& micro_batch);

  void send_gradient(const at::Tensor& gradient);
  /// Receives the gradient of `activation`. Blocks.
  at::Tensor receive_gradient(const at::Tensor& activation);

  /// Blocks until all sent tensors have been copied. Throws failures of the sends.
  void finish();

  /// Aborts the group, so that no other stage waits for this one, and blocks until sent tensors are
  /// no longer used.
  void abandon(const std::string& reason);

 private:
  void send(const at::Tensor& tensor, int to, const std::string& what);

  ProcessGroup group_;
  at::Device device_;
  /// Sent tensors, which must live until they have been copied.
  std::vector<std::pair<Work, at::Tensor>> under_way_;
};

}  // namespace ddprun::torch
