// Entry point of the module: exports CUDA, NCCL and our kernels through the table.
#include "worker_runtime/backends/module/border.hpp"
#include "worker_runtime/backends/nccl/device_table.hpp"
#include "worker_runtime/backends/nccl/nccl_library.hpp"

namespace ddprun::nccl {

namespace {

const NcclCalls& nccl() {
  // If the constructor throws, the next call tries again.
  static const NcclCalls calls = load_nccl();
  return calls;
}

const DeviceTable& table() {
  static const Libraries libraries{nccl, &cuda::runtime_calls(), &cuda::kernel_calls(),
                                   &cuda::exam_kernels()};
  static const DeviceTable made = make_device_table(libraries);
  return made;
}

}  // namespace

}  // namespace ddprun::nccl

extern "C" __attribute__((visibility("default"))) const ddprun::nccl::DeviceTable*
ddprun_device_module(ddprun::module::Failure& failure) {
  const ddprun::nccl::DeviceTable* found = nullptr;
  ddprun::module::attempt(failure, [&] { found = &ddprun::nccl::table(); });
  return found;
}
