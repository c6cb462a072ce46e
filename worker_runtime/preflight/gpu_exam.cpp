#include "worker_runtime/preflight/gpu_exam.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_runtime/backends/module/border.hpp"
#include "worker_runtime/preflight/cpu_exam.hpp"
#include "worker_runtime/preflight/gpu_health.hpp"
#include "worker_runtime/preflight/gpu_holders.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/error.hpp>

#include <chrono>
#include <string>
#include <unistd.h>
#include <variant>
#include <vector>

namespace ddprun::preflight {

namespace {

struct Listener {
  Progress& progress;
  std::function<double()> seconds;
};

double steady_seconds() {
  return std::chrono::duration<double>(Deadline::Clock::now().time_since_epoch()).count();
}

const Listener& listener_of(const void* context) {
  return *static_cast<const Listener*>(context);
}

}  // namespace

Exam examine_gpu(const CudaDevice& found, const GpuExamSettings& settings, Progress& progress) {
  const Listener listener{progress, settings.seconds ? settings.seconds : steady_seconds};
  const nccl::DeviceExamOrder order{
      .device = found.device.index,
      .memory_bytes = settings.memory_bytes,
      .product_size = settings.product_size,
      .note = [](const void* context, const char* device,
                 const char* doing) noexcept { listener_of(context).progress.note(device, doing); },
      .seconds = [](const void* context) noexcept { return listener_of(context).seconds(); },
      .context = &listener};
  nccl::DeviceExamResult result;
  module::Failure failure;
  if (!found.table->examine(found.table->libraries, order, result, failure)) module::raise(failure);
  Exam exam{.device = found.device,
            .name = result.name,
            .no_exchange = found.nccl_unavailable,
            .is_shared = found.is_shared,
            .memory_bytes_per_second = result.memory_bytes_per_second,
            .product_flops = result.product_flops};
  if (!exam.no_exchange.empty())
    exam.remark = "nothing is exchanged between the GPUs: " + exam.no_exchange;
  progress.note(exam.name, ": asking the driver for its errors");
  const auto nvml = Nvml::open(settings.nvml);
  const auto state = nvml ? nvml->state_of(result.address) : std::nullopt;
  if (!state) return exam;
  auto health = judge_health(*state);
  exam.problem = std::move(health.problem);
  std::vector<std::string> remarks = {exam.remark, health.remark,
                                      remark_on_holders(state->processes, ::getpid())};
  std::erase(remarks, "");
  exam.remark = join(remarks, "; ");
  return exam;
}

Exam examine_own(const WorkerEnv& env, Progress& progress) {
  progress.note("its device", ": asking CUDA for it");
  const auto found = find_cuda_device(env);
  if (const auto* device = std::get_if<CudaDevice>(&found))
    return examine_gpu(*device, {}, progress);
  const auto& none = std::get<NoCudaDevice>(found);
  if (none.kind == NoCudaDevice::Kind::broken) throw Error(Errc::cuda, none.reason);
  Exam exam = examine_cpu({}, progress);
  if (none.kind == NoCudaDevice::Kind::not_for_it)
    exam.remark = "no GPU is checked: " + none.reason;
  return exam;
}

}  // namespace ddprun::preflight
