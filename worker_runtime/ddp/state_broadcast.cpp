#include "worker_runtime/ddp/state_broadcast.hpp"

#include "worker_runtime/ddp/tensor_work.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun {

StateBroadcast::StateBroadcast(ProcessGroup group, std::span<const Buffer> tensors)
    : group_(std::move(group)) {
  // Only the last piece of a type can have free space.
  for (const Buffer& tensor : tensors) {
    if (tensor.elements == 0) continue;
    const auto open = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& piece) {
      return piece.flat.type == tensor.type && piece.flat.device == tensor.device;
    });
    const bool fits = open != pieces_.rend() && open->flat.bytes() < kBroadcastBytesMax;
    Piece& piece =
        fits ? *open
             : pieces_.emplace_back(Piece{{}, {.type = tensor.type, .device = tensor.device}});
    piece.tensors.push_back(tensor);
    piece.flat.elements += tensor.elements;
  }
  std::map<Device::Kind, std::size_t> bytes;
  for (const auto& piece : pieces_) {
    auto& most = bytes[piece.flat.device.kind];
    if (piece.tensors.size() > 1) most = std::max(most, piece.flat.bytes());
  }
  for (auto& piece : pieces_) {
    const Device device = piece.flat.device;
    auto& staging = staging_[device.kind];
    if (!staging && bytes[device.kind] > 0) staging = group_.allocate(bytes[device.kind], device);
    piece.flat.data = piece.tensors.size() > 1 ? staging.get() : piece.tensors.front().data;
  }
}

void StateBroadcast::run(int root) {
  for (const auto& piece : pieces_) run(piece, root);
}

void StateBroadcast::run(const Piece& piece, int root) {
  const TensorWork tensors(group_, piece.flat.device);
  const auto copy = [&](bool to_flat) {
    if (piece.tensors.size() == 1) return;
    std::vector<TensorCopy> copies;
    std::size_t first = 0;
    for (const Buffer& tensor : piece.tensors) {
      const Buffer flat = piece.flat.slice(first, tensor.elements);
      copies.push_back(to_flat ? TensorCopy{tensor, flat} : TensorCopy{flat, tensor});
      first += tensor.elements;
    }
    tensors.copy(copies, group_.stream());
  };
  const bool is_root = group_.rank() == root;
  if (is_root) copy(true);
  group_.broadcast(piece.flat, root).hold(group_.stream());
  if (!is_root) copy(false);
}

}  // namespace ddprun
