// Device memory that NCCL sends and receives without copies: from NCCL's allocator and registered
// with a communicator, which it may outlive. Any thread.
#pragma once

#include "worker_runtime/backends/nccl/communicator.hpp"
#include "worker_runtime/backends/nccl/libraries.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace ddprun::nccl {

class RegisteredMemory {
 public:
  /// Returns zeroed memory. `libraries` must outlive it. Throws Error{Errc::nccl} if NCCL does not
  /// support, allocate or register it. Blocks.
  static std::unique_ptr<RegisteredMemory> make(const Libraries& libraries, int device,
                                                std::shared_ptr<Communicator> communicator,
                                                std::size_t bytes);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  /// Frees the memory when the device has completed all work. Blocks.
  ~RegisteredMemory();

  void* data() const { return data_; }

 private:
  RegisteredMemory(const Libraries& libraries, int device,
                   std::shared_ptr<Communicator> communicator)
      : libraries_(libraries), device_(device), communicator_(std::move(communicator)) {}
  void allocate(std::size_t bytes);

  const Libraries libraries_;
  const int device_;
  // Shared with the collectives, since either may end first.
  const std::shared_ptr<Communicator> communicator_;
  void* data_ = nullptr;
  void* handle_ = nullptr;  ///< handle of the communicator; null if not registered
};

}  // namespace ddprun::nccl
