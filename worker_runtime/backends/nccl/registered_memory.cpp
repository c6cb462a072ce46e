#include "worker_runtime/backends/nccl/registered_memory.hpp"

#include "worker_runtime/cuda/device_objects.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <string>

namespace ddprun::nccl {

std::unique_ptr<RegisteredMemory> RegisteredMemory::make(const Libraries& libraries, int device,
                                                         std::shared_ptr<Communicator> communicator,
                                                         std::size_t bytes) {
  const NcclCalls& nccl = libraries.nccl();
  if (nccl.mem_alloc == nullptr || nccl.mem_free == nullptr || nccl.comm_register == nullptr ||
      nccl.comm_deregister == nullptr)
    throw Error(Errc::nccl, "this NCCL is older than 2.19 and registers no memory");
  std::unique_ptr<RegisteredMemory> made(
      new RegisteredMemory(libraries, device, std::move(communicator)));
  const cuda::OnDevice here(*libraries.cuda, device);
  made->allocate(bytes);
  made->handle_ = made->communicator_->register_memory(made->data_, bytes);
  return made;
}

void RegisteredMemory::allocate(std::size_t bytes) {
  const NcclCalls& nccl = libraries_.nccl();
  const cuda::CudaCalls& calls = *libraries_.cuda;
  const std::string of = " of " + std::to_string(bytes) + " bytes";
  const ncclResult_t result = nccl.mem_alloc(&data_, bytes);
  if (result != ncclSuccess) {
    data_ = nullptr;
    // Clears CUDA's last error, which NCCL has caused.
    calls.get_last_error();
    throw Error(Errc::nccl, "ncclMemAlloc" + of + ": " + nccl.get_error_string(result));
  }
  const cuda::Stream stream(calls, device_);
  cuda::check(calls, calls.memset_async(data_, 0, bytes, stream.get()), "cudaMemset" + of);
  cuda::check(calls, calls.stream_synchronize(stream.get()), "cudaMemset" + of);
}

RegisteredMemory::~RegisteredMemory() {
  if (data_ == nullptr) return;
  try {
    const cuda::OnDevice here(*libraries_.cuda, device_);
    libraries_.cuda->device_synchronize();
    // Before the memory is freed: NCCL identifies registered memory by address.
    if (handle_ != nullptr) communicator_->deregister(handle_);
    libraries_.nccl().mem_free(data_);
  } catch (const std::exception&) {
    // The device has failed, which frees its memory.
  }
}

}  // namespace ddprun::nccl
