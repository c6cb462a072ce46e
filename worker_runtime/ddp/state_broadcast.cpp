#include "worker_runtime/ddp/state_broadcast.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace ddprun {

StateBroadcast::StateBroadcast(ProcessGroup group, std::span<const Buffer> tensors)
    : group_(std::move(group)) {
  // The piece of a type that is still filled is the last one of that type.
  for (const Buffer& tensor : tensors) {
    if (tensor.elements == 0) continue;
    const auto open = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& piece) {
      return piece.flat.type == tensor.type;
    });
    const bool fits = open != pieces_.rend() && open->flat.bytes() < kBroadcastBytesMax;
    Piece& piece = fits ? *open : pieces_.emplace_back(Piece{{}, {.type = tensor.type}});
    piece.tensors.push_back(tensor);
    piece.flat.elements += tensor.elements;
  }
  std::size_t bytes = 0;
  for (const auto& piece : pieces_) {
    if (piece.tensors.size() > 1) bytes = std::max(bytes, piece.flat.bytes());
  }
  if (bytes > 0) staging_ = group_.allocate(bytes);
  for (auto& piece : pieces_) {
    piece.flat.data = piece.tensors.size() > 1 ? staging_.get() : piece.tensors.front().data;
  }
}

void StateBroadcast::run(int root) {
  const bool is_root = group_.rank() == root;
  for (const auto& piece : pieces_) {
    const auto copy = [&piece](bool to_flat) {
      if (piece.tensors.size() == 1) return;
      auto* at = static_cast<std::byte*>(piece.flat.data);
      for (const Buffer& tensor : piece.tensors) {
        std::memcpy(to_flat ? at : tensor.data, to_flat ? tensor.data : at, tensor.bytes());
        at += tensor.bytes();
      }
    };
    if (is_root) copy(true);
    group_.broadcast(piece.flat, root).wait();
    if (!is_root) copy(false);
  }
}

}  // namespace ddprun
