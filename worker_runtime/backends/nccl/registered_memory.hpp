// Memory of a CUDA device out of which NCCL sends and into which it receives without copies of its
// own: from its own allocator, and registered with a communicator, which it may outlive. Any
// thread.
#pragma once

#include "worker_runtime/backends/nccl/communicator.hpp"
#include "worker_runtime/backends/nccl/libraries.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace ddprun::nccl {

class RegisteredMemory {
 public:
  /// Zeroed. `libraries` outlive it. Throws Error{Errc::nccl} if this NCCL knows no such memory,
  /// gives none, or does not register it. Blocks.
  static std::unique_ptr<RegisteredMemory> make(const Libraries& libraries, int device,
                                                std::shared_ptr<Communicator> communicator,
                                                std::size_t bytes);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  /// Blocks until the device has no work left that may use it.
  ~RegisteredMemory();

  void* data() const { return data_; }

 private:
  RegisteredMemory(const Libraries& libraries, int device,
                   std::shared_ptr<Communicator> communicator)
      : libraries_(libraries), device_(device), communicator_(std::move(communicator)) {}
  void allocate(std::size_t bytes);

  const Libraries libraries_;
  const int device_;
  // Shared with the collectives: whichever of them and this memory is the first to end.
  const std::shared_ptr<Communicator> communicator_;
  void* data_ = nullptr;
  void* handle_ = nullptr;  ///< the communicator's; null: it has not been registered
};

}  // namespace ddprun::nccl
