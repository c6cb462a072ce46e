#include "worker_runtime/ddp/tensor_work.hpp"

#include "worker_runtime/collectives/divide.hpp"
#include "worker_runtime/ddp/own_gradients.hpp"
#include "worker_runtime/group/device_queue_of.hpp"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace ddprun {

TensorWork::TensorWork(ProcessGroup group, Device device)
    : group_(std::move(group)), device_(device), queue_(device_queue_of(group_)) {}

std::shared_ptr<void> TensorWork::allocate(std::size_t bytes) const {
  return group_.allocate(bytes, device_);
}

std::shared_ptr<void> TensorWork::allocate_registered(std::size_t bytes) const {
  return queue_->allocate_registered(bytes);
}

void TensorWork::copy(std::span<const TensorCopy> copies, void* stream) const {
  using Types = std::pair<DataType, DataType>;
  std::map<Types, std::vector<DevicePiece>> pieces;
  for (const auto& [from, to] : copies) {
    if (from.elements == 0) continue;
    if (is_on_device()) {
      pieces[{from.type, to.type}].push_back({from.data, to.data, from.elements});
    } else {
      std::memcpy(to.data, from.data, from.bytes());
    }
  }
  for (const auto& [types, some] : pieces)
    queue_->convert(some, types.first, types.second, 1, stream);
}

void TensorWork::add(std::span<const TensorCopy> sums, void* stream) const {
  std::map<DataType, std::vector<DevicePiece>> pieces;
  for (const auto& [from, to] : sums) {
    if (from.elements == 0) continue;
    if (is_on_device()) {
      pieces[from.type].push_back({from.data, to.data, from.elements});
    } else {
      add_widened(from, to);
    }
  }
  for (const auto& [type, some] : pieces) queue_->add(some, type, stream);
}

void TensorWork::zero(const Buffer& tensor, void* stream) const {
  if (tensor.elements == 0) return;
  if (is_on_device()) return queue_->zero(tensor.data, tensor.bytes(), stream);
  std::memset(tensor.data, 0, tensor.bytes());
}

void TensorWork::scale(const Buffer& tensor, double factor, void* stream) const {
  if (!is_on_device()) return collectives::scale(tensor, factor);
  const DevicePiece all{tensor.data, tensor.data, tensor.elements};
  queue_->convert({&all, 1}, tensor.type, tensor.type, factor, stream);
}

void TensorWork::order(void* before, void* after) const {
  if (is_on_device()) queue_->order(before, after);
}

std::uint64_t TensorWork::capture_of(void* stream) const {
  return is_on_device() ? queue_->capture_of(stream) : 0;
}

void TensorWork::await(void* stream, Deadline deadline) const {
  if (is_on_device()) queue_->await(queue_->mark(stream), deadline);
}

std::span<const std::byte> TensorWork::read(const Buffer& tensor,
                                            std::vector<std::byte>& memory) const {
  if (!is_on_device()) return {static_cast<const std::byte*>(tensor.data), tensor.bytes()};
  memory.resize(tensor.bytes());
  if (tensor.elements > 0)
    queue_->copy(memory.data(), tensor.data, tensor.bytes(), Deadline::never());
  return memory;
}

}  // namespace ddprun
