// Gives all ranks one rank's tensors in few collectives: small ones of one type are copied one
// after another into a staging area. One thread at a time.
#pragma once

#include <ddprun/process_group.hpp>

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

/// Of one collective, unless a single tensor is larger. PyTorch's.
inline constexpr std::size_t kBroadcastBytesMax = 250 << 20;

class StateBroadcast {
 public:
  /// The tensors' memory must outlive this object. Not called in a group of one rank.
  StateBroadcast(ProcessGroup group, std::span<const Buffer> tensors);

  /// Blocks. After: every rank's tensors have the values of `root`'s. Where they are on a device,
  /// that begins and ends on the group's stream, and this does not block for it.
  void run(int root);

 private:
  /// Tensors of one type and device that travel together.
  struct Piece {
    std::vector<Buffer> tensors;
    Buffer flat;  ///< the staging area's beginning; a single tensor travels as it is
  };

  void run(const Piece& piece, int root);

  ProcessGroup group_;
  std::vector<Piece> pieces_;
  std::map<Device::Kind, std::shared_ptr<void>> staging_;
};

}  // namespace ddprun
