#include "worker_runtime/backends/nccl/nccl_backend.hpp"

#include "worker_runtime/backends/host/host_backend.hpp"
#include "worker_runtime/backends/module/border.hpp"
#include "worker_runtime/backends/module/finding.hpp"
#include "worker_runtime/backends/module/recorded_progress.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <filesystem>
#include <utility>
#include <variant>

namespace ddprun {

namespace {

using nccl::DeviceTable;

/// Device files, a faster check than CUDA's initialisation, which takes tenths of a second. The
/// second one is that of the Windows Subsystem for Linux.
bool may_have_gpu() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) ||
         std::filesystem::exists("/dev/dxg", ignored);
}

/// Returns the module's functions, or the reason why they are unavailable.
std::variant<const DeviceTable*, std::string> load_module() {
  const auto found = module::find_entry("nccl", nccl::kDeviceEntryName);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const auto& there = std::get<module::FoundEntry>(found);
  module::Failure failure;
  const auto* table = reinterpret_cast<nccl::DeviceEntry>(there.function)(failure);
  if (table == nullptr) return std::string(failure.text);
  if (table->version == nccl::kModuleVersion) return table;
  return module::wrong_version(there.path, table->version, nccl::kModuleVersion);
}

std::variant<CudaDevice, NoCudaDevice> find_device(const DeviceTable& table, const WorkerEnv& env) {
  module::Failure failure;
  int devices = 0;
  if (!table.find_devices(table.libraries, devices, failure)) {
    const bool is_broken = failure.code != Errc::usage;
    return NoCudaDevice{is_broken ? NoCudaDevice::Kind::broken : NoCudaDevice::Kind::no_gpu,
                        failure.text};
  }
  const bool is_enough = env.local_rank < devices && env.local_world_size <= devices;
  if (!is_enough && !env.shares_gpus) {
    return NoCudaDevice{NoCudaDevice::Kind::not_for_it,
                        std::to_string(env.local_world_size) +
                            " workers of this node need a CUDA device each, " + "and there are " +
                            std::to_string(devices) +
                            " (CUDA_VISIBLE_DEVICES limits them; --nproc_per_node=gpu starts a "
                            "worker for each, and "
                            "--share_gpu lets them share)"};
  }
  CudaDevice found{.table = &table,
                   .device = {.kind = Device::Kind::cuda, .index = env.local_rank % devices},
                   .is_shared = !is_enough};
  if (env.world_size > 1 && !table.find_nccl(table.libraries, failure))
    found.nccl_unavailable = failure.text;
  return found;
}

std::optional<control::ControlPage> page_of(const WorkerEnv& env) {
  if (!env.control_page_fd) return std::nullopt;
  return control::ControlPage::attach_again(*env.control_page_fd, env.control_page_slot);
}

}  // namespace

std::variant<CudaDevice, NoCudaDevice> find_cuda_device(const WorkerEnv& env) {
  using Kind = NoCudaDevice::Kind;
  if (!may_have_gpu())
    return NoCudaDevice{Kind::no_gpu, "there is no NVIDIA GPU here (no /dev/nvidiactl)"};
  const auto loaded = load_module();
  if (const auto* reason = std::get_if<std::string>(&loaded))
    return NoCudaDevice{Kind::not_for_it, *reason};
  return find_device(*std::get<const DeviceTable*>(loaded), env);
}

std::string nccl_unavailable_reason(const WorkerEnv& env) {
  if (auto reason = host_unavailable_reason(env); !reason.empty()) return reason;
  const auto found = find_cuda_device(env);
  if (const auto* none = std::get_if<NoCudaDevice>(&found)) return none->reason;
  return std::get<CudaDevice>(found).nccl_unavailable;
}

bool has_visible_gpu(const WorkerEnv& env) {
  const auto found = find_cuda_device(env);
  const auto* none = std::get_if<NoCudaDevice>(&found);
  return none == nullptr || none->kind != NoCudaDevice::Kind::no_gpu;
}

std::unique_ptr<Backend> create_nccl_backend(const GroupPlace& place, const GroupOptions& options,
                                             Deadline deadline) {
  const auto found = find_cuda_device(place.env);
  if (const auto* none = std::get_if<NoCudaDevice>(&found)) throw Error(Errc::nccl, none->reason);
  const auto& own = std::get<CudaDevice>(found);
  return std::make_unique<nccl::NcclBackend>(create_host_backend(place, options, "nccl", deadline),
                                             *own.table,
                                             nccl::NcclBackend::Place{
                                                 .device = {.rank = place.env.rank,
                                                            .ranks = place.env.world_size,
                                                            .device = own.device,
                                                            .group = options.name,
                                                            .log = options.log},
                                                 .page = page_of(place.env),
                                                 .slot = place.env.control_page_slot,
                                             });
}

namespace nccl {

NcclBackend::NcclBackend(std::unique_ptr<WatchfulBackend> host, const DeviceTable& table,
                         Place place)
    : host_(std::move(host)),
      place_(std::move(place)),
      device_(*host_, table, place_.device, [this] { return stall_reason(); }) {}

void NcclBackend::leave() noexcept {
  try {
    host_->check();
    device_.finish();
  } catch (const std::exception&) {
    // The other ranks do not end in an orderly way.
  }
  host_->leave();
}

void NcclBackend::abort(const std::string& reason) noexcept {
  // First, so that the other ranks get the cause.
  host_->abort(reason);
  device_.abort(reason);
}

/// NCCL does not report missing ranks.
std::string NcclBackend::stall_reason() const {
  return place_.page ? recorded_hold_up(*place_.page, place_.slot, place_.device.group)
                     : std::string();
}

void NcclBackend::run(const Operation& operation, Deadline deadline) {
  if (device_of(operation).kind == Device::Kind::cpu) return host_->run(operation, deadline);
  try {
    pass_message(operation, deadline);
  } catch (const std::exception& failure) {
    // The other ranks wait for this one. Has no effect if the group has failed.
    host_->abort(failure.what());
    throw;
  }
}

void NcclBackend::pass_message(Operation operation, Deadline deadline) {
  const bool is_send = operation.collective == Collective::send;
  Buffer& buffer = is_send ? operation.input : operation.output;
  const Buffer on_device = buffer;
  message_.resize(buffer.bytes());
  buffer = {message_.data(), buffer.elements, buffer.type};
  device_.await(operation.mark, deadline);
  if (is_send) device_.copy(buffer.data, on_device.data, buffer.bytes(), deadline);
  host_->run(operation, deadline);
  if (!is_send) device_.copy(on_device.data, buffer.data, buffer.bytes(), deadline);
}

}  // namespace nccl

}  // namespace ddprun
