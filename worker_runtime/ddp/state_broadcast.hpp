// Broadcasts tensors in few collectives: small ones of one type are copied into a staging area. One
// thread at a time.
#pragma once

#include <ddprun/process_group.hpp>

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

/// Maximum size of a collective, unless a single tensor is larger; PyTorch's.
inline constexpr std::size_t kBroadcastBytesMax = 250 << 20;

class StateBroadcast {
 public:
  /// The tensors' memory must outlive this object. Not called in a group of one rank.
  StateBroadcast(ProcessGroup group, std::span<const Buffer> tensors);

  /// Copies the values of `root`'s tensors to all ranks. Blocks, except on a device, where it is
  /// asynchronous on the group's stream.
  void run(int root);

 private:
  /// Tensors of one type and device that are broadcast together.
  struct Piece {
    std::vector<Buffer> tensors;
    Buffer flat;  ///< the start of the staging area, or a single tensor itself
  };

  void run(const Piece& piece, int root);

  ProcessGroup group_;
  std::vector<Piece> pieces_;
  std::map<Device::Kind, std::shared_ptr<void>> staging_;
};

}  // namespace ddprun
