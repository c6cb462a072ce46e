#include "worker_runtime/libtorch/stage_link.hpp"

#include <ddprun/error.hpp>
#include <ddprun/torch/as_buffer.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>

namespace ddprun::torch {

namespace {

constexpr std::int64_t kDimensionsMax = 16;

/// Header of an activation: a tensor of numbers, so that one message is enough.
class Announcement {
 public:
  Announcement() : tensor_(at::zeros({5 + kDimensionsMax}, at::kLong)) {}

  std::int64_t& first() const { return fields()[0]; }
  std::int64_t& rows() const { return fields()[1]; }
  std::int64_t& batch_rows() const { return fields()[2]; }
  std::int64_t& type() const { return fields()[3]; }
  std::int64_t& dimensions() const { return fields()[4]; }
  std::int64_t* sizes() const { return fields() + 5; }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  std::int64_t* fields() const { return tensor_.data_ptr<std::int64_t>(); }

  at::Tensor tensor_;
};

Announcement announce(const at::Tensor& activation, const MicroBatch& micro_batch) {
  if (activation.dim() > kDimensionsMax) {
    throw Error(Errc::usage, "pipeline: a stage's output has " + std::to_string(activation.dim()) +
                                 " dimensions, at most " + std::to_string(kDimensionsMax) +
                                 " can be sent");
  }
  Announcement announcement;
  announcement.first() = micro_batch.first;
  announcement.rows() = micro_batch.rows;
  announcement.batch_rows() = micro_batch.batch_rows;
  announcement.type() = static_cast<std::int64_t>(activation.scalar_type());
  announcement.dimensions() = activation.dim();
  std::copy(activation.sizes().begin(), activation.sizes().end(), announcement.sizes());
  return announcement;
}

}  // namespace

std::string describe(const MicroBatch& micro_batch) {
  return "rows " + std::to_string(micro_batch.first) + " to " +
         std::to_string(micro_batch.first + micro_batch.rows - 1) + " of " +
         std::to_string(micro_batch.batch_rows);
}

void StageLink::send_activation(const at::Tensor& activation, const MicroBatch& micro_batch) {
  send(announce(activation, micro_batch).tensor(), stage() + 1, "announcement");
  send(activation.detach(), stage() + 1, "activation");
}

at::Tensor StageLink::receive_activation(const MicroBatch& micro_batch) {
  const Announcement announcement;
  group_.recv(as_copied_buffer(announcement.tensor(), "announcement"), stage() - 1).wait();
  const MicroBatch sent{announcement.first(), announcement.rows(), announcement.batch_rows()};
  if (sent != micro_batch) {
    throw Error(Errc::usage, "pipeline: stage " + std::to_string(stage()) + " is at " +
                                 describe(micro_batch) + ", but the stage before it sends " +
                                 describe(sent) +
                                 " (all stages need the same rows and split size)");
  }
  const auto type = static_cast<at::ScalarType>(announcement.type());
  if (announcement.dimensions() < 0 || announcement.dimensions() > kDimensionsMax ||
      announcement.type() < 0 || !at::isFloatingType(type)) {
    throw Error(Errc::usage, "pipeline: the output of stage " + std::to_string(stage() - 1) +
                                 " has no floating-point type, so it has no gradient");
  }
  const at::IntArrayRef sizes(announcement.sizes(),
                              static_cast<std::size_t>(announcement.dimensions()));
  at::Tensor activation = at::empty(sizes, at::TensorOptions(device_).dtype(type));
  group_.recv(as_copied_buffer(activation, "activation"), stage() - 1).wait();
  return activation;
}

void StageLink::send_gradient(const at::Tensor& gradient) {
  send(gradient, stage() - 1, "gradient");
}

at::Tensor StageLink::receive_gradient(const at::Tensor& activation) {
  at::Tensor gradient = at::empty_like(activation, at::MemoryFormat::Contiguous);
  group_.recv(as_copied_buffer(gradient, "gradient"), stage() + 1).wait();
  return gradient;
}

void StageLink::send(const at::Tensor& tensor, int to, const std::string& what) {
  std::erase_if(under_way_, [](const auto& one) { return one.first.is_done(); });
  at::Tensor contiguous = tensor.contiguous();
  const Work work = group_.send(as_copied_buffer(contiguous, what), to);
  under_way_.emplace_back(work, std::move(contiguous));
}

void StageLink::finish() {
  for (const auto& [work, tensor] : under_way_) work.wait();
  under_way_.clear();
}

void StageLink::abandon(const std::string& reason) {
  group_.abort(reason);
  for (const auto& [work, tensor] : under_way_) {
    try {
      work.wait();
    } catch (...) {
      // Failures to send are expected here; their cause is already being thrown.
    }
  }
  under_way_.clear();
}

}  // namespace ddprun::torch
