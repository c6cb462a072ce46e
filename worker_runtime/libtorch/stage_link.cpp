#include "worker_runtime/libtorch/stage_link.hpp"

#include <ddprun/error.hpp>
#include <ddprun/torch/as_buffer.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>

namespace ddprun::torch {

namespace {

constexpr std::size_t kDimensionsMax = 16;

/// Goes before an activation.
struct Announcement {
  std::array<std::int64_t, 5 + kDimensionsMax> fields{};

  std::int64_t& first() { return fields[0]; }
  std::int64_t& rows() { return fields[1]; }
  std::int64_t& batch_rows() { return fields[2]; }
  std::int64_t& type() { return fields[3]; }
  std::int64_t& dimensions() { return fields[4]; }
  std::int64_t* sizes() { return fields.data() + 5; }
  Buffer buffer() { return ddprun::as_buffer(fields.data(), fields.size()); }
};

Announcement announce(const at::Tensor& activation, const MicroBatch& micro_batch) {
  const auto dimensions = static_cast<std::size_t>(activation.dim());
  if (dimensions > kDimensionsMax) {
    throw Error(Errc::usage, "pipeline: a stage's output has " + std::to_string(dimensions) +
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
  Announcement announcement = announce(activation, micro_batch);
  group_.send(announcement.buffer(), stage() + 1).wait();
  send(activation.detach(), stage() + 1);
}

at::Tensor StageLink::receive_activation(const MicroBatch& micro_batch) {
  Announcement announcement;
  group_.recv(announcement.buffer(), stage() - 1).wait();
  const MicroBatch sent{announcement.first(), announcement.rows(), announcement.batch_rows()};
  if (sent != micro_batch) {
    throw Error(Errc::usage, "pipeline: stage " + std::to_string(stage()) + " is at " +
                                 describe(micro_batch) + ", but the stage before it sends " +
                                 describe(sent) +
                                 " (all stages need the same rows and split size)");
  }
  const at::IntArrayRef sizes(announcement.sizes(),
                              static_cast<std::size_t>(announcement.dimensions()));
  const auto type = static_cast<at::ScalarType>(announcement.type());
  at::Tensor activation = at::empty(sizes, at::TensorOptions(device_).dtype(type));
  group_.recv(as_copied_buffer(activation, "activation"), stage() - 1).wait();
  return activation;
}

void StageLink::send_gradient(const at::Tensor& gradient) {
  send(gradient, stage() - 1);
}

at::Tensor StageLink::receive_gradient(const at::Tensor& activation) {
  at::Tensor gradient = at::empty_like(activation, at::MemoryFormat::Contiguous);
  group_.recv(as_copied_buffer(gradient, "gradient"), stage() + 1).wait();
  return gradient;
}

void StageLink::send(const at::Tensor& tensor, int to) {
  std::erase_if(under_way_, [](const auto& one) { return one.first.is_done(); });
  at::Tensor contiguous = tensor.contiguous();
  const Work work = group_.send(as_copied_buffer(contiguous, "activation"), to);
  under_way_.emplace_back(work, std::move(contiguous));
}

void StageLink::finish() {
  for (const auto& [work, tensor] : under_way_) work.wait();
  under_way_.clear();
}

}  // namespace ddprun::torch
