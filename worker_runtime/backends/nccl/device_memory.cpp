#include "worker_runtime/backends/nccl/device_memory.hpp"

#include "worker_runtime/backends/nccl/watch.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <string>

namespace ddprun::nccl {

namespace {

cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void* DeviceMemory::allocate(std::size_t bytes) {
  const cuda::CudaCalls& calls = *libraries_.cuda;
  const cuda::OnDevice here(calls, device_);
  const std::string of = " of " + std::to_string(bytes) + " bytes";
  void* memory = nullptr;
  cuda::check(calls, calls.allocate(&memory, bytes), "cudaMalloc" + of);
  try {
    cuda::check(calls, calls.memset_async(memory, 0, bytes, stream_.get()), "cudaMemset" + of);
    cuda::check(calls, calls.stream_synchronize(stream_.get()), "cudaMemset" + of);
  } catch (const Error&) {
    calls.free(memory);
    throw;
  }
  return memory;
}

void DeviceMemory::release(const Libraries& libraries, int device, void* memory) noexcept {
  try {
    const cuda::OnDevice here(*libraries.cuda, device);
    libraries.cuda->device_synchronize();
    libraries.cuda->free(memory);
  } catch (const std::exception&) {
    // The device has failed, which frees its memory.
  }
}

void DeviceMemory::convert(std::span<const DevicePiece> pieces, DataType from, DataType to,
                           double scale, void* stream) {
  const cuda::OnDevice here(*libraries_.cuda, device_);
  cuda::check(*libraries_.cuda,
              libraries_.kernels->convert(pieces, from, to, scale, stream_of(stream)),
              "copying " + std::to_string(pieces.size()) + " tensor(s) on the device");
}

void DeviceMemory::add(std::span<const DevicePiece> pieces, DataType from, void* stream) {
  const cuda::OnDevice here(*libraries_.cuda, device_);
  cuda::check(*libraries_.cuda, libraries_.kernels->add(pieces, from, stream_of(stream)),
              "adding " + std::to_string(pieces.size()) + " tensor(s) on the device");
}

void DeviceMemory::zero(void* memory, std::size_t bytes, void* stream) {
  const cuda::OnDevice here(*libraries_.cuda, device_);
  cuda::check(*libraries_.cuda, libraries_.cuda->memset_async(memory, 0, bytes, stream_of(stream)),
              "cudaMemset of " + std::to_string(bytes) + " bytes");
}

void DeviceMemory::order(void* before, void* after) {
  if (before == after) return;
  const cuda::OnDevice here(*libraries_.cuda, device_);
  // CUDA would invalidate the capture, or include the other stream.
  if (cuda::capture_of(*libraries_.cuda, stream_of(before)) !=
      cuda::capture_of(*libraries_.cuda, stream_of(after))) {
    throw Error(
        Errc::usage,
        "a captured stream and a stream outside of the capture depend on each other; add the "
        "other stream to the capture by an event first");
  }
  cuda::Event& event = events_.take();
  event.record(stream_of(before));
  cuda::check(*libraries_.cuda,
              libraries_.cuda->stream_wait_event(stream_of(after), event.get(), 0),
              "cudaStreamWaitEvent");
  events_.give_back(event);
}

void DeviceMemory::copy(void* to, const void* from, std::size_t bytes, Deadline deadline) {
  const cuda::OnDevice here(*libraries_.cuda, device_);
  const std::string what = "cudaMemcpy of " + std::to_string(bytes) + " bytes";
  cuda::check(*libraries_.cuda,
              libraries_.cuda->copy_async(to, from, bytes, cudaMemcpyDefault, stream_.get()), what);
  cuda::Event& end = events_.take();
  end.record(stream_.get());
  Alarm silence;
  if (!await([&] { return end.has_happened(); }, {deadline, silence, [] {}}))
    throw Error(Errc::timeout, what + ": not done on the device " + deadline.describe());
  events_.give_back(end);
}

}  // namespace ddprun::nccl
