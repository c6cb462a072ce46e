#include "worker_runtime/backends/nccl/device_table.hpp"

#include "worker_runtime/backends/module/border.hpp"
#include "worker_runtime/backends/nccl/device_memory.hpp"
#include "worker_runtime/cuda/device_exam.hpp"
#include <ddprun/error.hpp>

#include <cstring>
#include <memory>

namespace ddprun::nccl {

namespace {

using module::attempt;
using module::deadline_of;
using module::Failure;

static_assert(sizeof(ncclUniqueId) == sizeof(Token));

const Libraries& libraries_of(const void* libraries) {
  return *static_cast<const Libraries*>(libraries);
}

DeviceCollectives& object_of(void* collectives) {
  return *static_cast<DeviceCollectives*>(collectives);
}

/// Runs `call` with the libraries on a separate thread; they outlive all threads.
template <typename Call>
auto call_limited(const Libraries& libraries, const std::string& what, Call call) {
  return call_by(Deadline::after(libraries.driver_timeout), what, std::move(call));
}

int count_devices(const Libraries& libraries) {
  return call_limited(libraries, "cudaGetDeviceCount", [&calls = *libraries.cuda] {
    int devices = 0;
    const cudaError_t error = calls.get_device_count(&devices);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0))
      throw Error(Errc::usage, "CUDA finds no device (CUDA_VISIBLE_DEVICES limits them)");
    cuda::check(calls, error, "cudaGetDeviceCount");
    return devices;
  });
}

void examine(const Libraries& libraries, const DeviceExamOrder& order, DeviceExamResult& result) {
  cuda::DeviceExam exam{.device = order.device,
                        .note =
                            [&order](const std::string& device, const std::string& doing) {
                              order.note(order.context, device.c_str(), doing.c_str());
                            },
                        .seconds = [&order] { return order.seconds(order.context); }};
  if (order.memory_bytes != 0) exam.memory_bytes = order.memory_bytes;
  if (order.product_size != 0) exam.product_size = order.product_size;
  const auto figures = cuda::examine(*libraries.cuda, *libraries.exam, exam);
  result.memory_bytes_per_second = figures.memory_bytes_per_second;
  result.product_flops = figures.product_flops;
  std::strncpy(result.name, figures.name.c_str(), sizeof result.name - 1);
  std::strncpy(result.address, figures.address.c_str(), sizeof result.address - 1);
}

ncclUniqueId make_id(const Libraries& libraries) {
  return call_limited(libraries, "ncclGetUniqueId", [&calls = libraries.nccl()] {
    ncclUniqueId id;
    const ncclResult_t result = calls.get_unique_id(&id);
    if (result != ncclSuccess) {
      throw Error(Errc::nccl, std::string("ncclGetUniqueId: ") + calls.get_error_string(result) +
                                  " (NCCL_SOCKET_IFNAME names the network interface to use)");
    }
    return id;
  });
}

/// Creates CUDA's context of the device, for all threads. Later calls are fast.
void create_context(const Libraries& libraries, int device) {
  const std::string what = "CUDA device " + std::to_string(device) + ": initialising CUDA";
  call_limited(libraries, what,
               [&calls = *libraries.cuda, device] { const cuda::Stream any(calls, device); });
}

std::unique_ptr<DeviceCollectives> make(const Libraries& libraries, const DeviceMember& member) {
  const auto look = [look = member.look, context = member.context] {
    Failure failure;
    if (!look(context, failure)) module::raise(failure);
  };
  create_context(libraries, member.device);
  return std::make_unique<DeviceCollectives>(libraries,
                                             DevicePlace{.rank = member.rank,
                                                         .ranks = member.ranks,
                                                         .device = member.device,
                                                         .group = member.group},
                                             look);
}

std::unique_ptr<DeviceMemory> make_memory(const Libraries& libraries, int device) {
  create_context(libraries, device);
  return std::make_unique<DeviceMemory>(libraries, device);
}

DeviceMemory& memory_of(void* memory) {
  return *static_cast<DeviceMemory*>(memory);
}

DeviceMemoryTable make_memory_table() {
  return {
      .create = [](const void* opaque, int device, Failure& failure) noexcept -> void* {
        std::unique_ptr<DeviceMemory> made;
        attempt(failure, [&] { made = make_memory(libraries_of(opaque), device); });
        return made.release();
      },
      .destroy = [](void* memory) noexcept { delete &memory_of(memory); },
      .allocate = [](void* memory, std::size_t bytes, Failure& failure) noexcept -> void* {
        void* allocated = nullptr;
        attempt(failure, [&] { allocated = memory_of(memory).allocate(bytes); });
        return allocated;
      },
      .release =
          [](const void* opaque, int device, void* allocated) noexcept {
            DeviceMemory::release(libraries_of(opaque), device, allocated);
          },
      .convert =
          [](void* memory, const DevicePiece* pieces, std::size_t count, DataType from, DataType to,
             double scale, void* stream, Failure& failure) noexcept {
            return attempt(failure, [&] {
              memory_of(memory).convert({pieces, count}, from, to, scale, stream);
            });
          },
      .add =
          [](void* memory, const DevicePiece* pieces, std::size_t count, DataType from,
             void* stream, Failure& failure) noexcept {
            return attempt(failure, [&] { memory_of(memory).add({pieces, count}, from, stream); });
          },
      .zero =
          [](void* memory, void* allocated, std::size_t bytes, void* stream,
             Failure& failure) noexcept {
            return attempt(failure, [&] { memory_of(memory).zero(allocated, bytes, stream); });
          },
      .order =
          [](void* memory, void* before, void* after, Failure& failure) noexcept {
            return attempt(failure, [&] { memory_of(memory).order(before, after); });
          },
      .copy =
          [](void* memory, void* to, const void* from, std::size_t bytes, std::int64_t left,
             Failure& failure) noexcept {
            return attempt(failure,
                           [&] { memory_of(memory).copy(to, from, bytes, deadline_of(left)); });
          },
  };
}

RegisteredMemoryTable make_registered_table() {
  return {
      .create = [](void* collectives, std::size_t bytes, Failure& failure) noexcept -> void* {
        std::unique_ptr<RegisteredMemory> made;
        attempt(failure, [&] { made = object_of(collectives).allocate(bytes); });
        return made.release();
      },
      .data =
          [](const void* memory) noexcept {
            return static_cast<const RegisteredMemory*>(memory)->data();
          },
      .destroy = [](void* memory) noexcept { delete static_cast<RegisteredMemory*>(memory); },
  };
}

void add_library_calls(DeviceTable& table) {
  table.find_devices = [](const void* opaque, int& devices, Failure& failure) noexcept {
    return attempt(failure, [&] { devices = count_devices(libraries_of(opaque)); });
  };
  table.find_nccl = [](const void* opaque, Failure& failure) noexcept {
    return attempt(failure, [&] { libraries_of(opaque).nccl(); });
  };
  table.examine = [](const void* opaque, const DeviceExamOrder& order, DeviceExamResult& result,
                     Failure& failure) noexcept {
    return attempt(failure, [&] { examine(libraries_of(opaque), order, result); });
  };
  table.make_token = [](const void* opaque, Token& token, Failure& failure) noexcept {
    return attempt(failure, [&] {
      const ncclUniqueId id = make_id(libraries_of(opaque));
      std::memcpy(token.data(), &id, sizeof id);
    });
  };
}

void add_capture_calls(DeviceTable& table) {
  table.capture_of = [](void* collectives, void* stream, std::uint64_t& capture,
                        Failure& failure) noexcept {
    return attempt(failure, [&] { capture = object_of(collectives).capture_of(stream); });
  };
  table.capture = [](void* collectives, const Operation& operation, void* stream, std::int64_t left,
                     std::uint64_t& call, Failure& failure) noexcept {
    return attempt(failure, [&] {
      call = object_of(collectives).capture(operation, stream, deadline_of(left));
    });
  };
  table.hold_captured = [](void* collectives, void* stream, std::uint64_t capture,
                           std::uint64_t call, Failure& failure) noexcept {
    return attempt(failure, [&] { object_of(collectives).hold_captured(stream, capture, call); });
  };
  table.watch = [](void* collectives, Failure& failure) noexcept {
    return attempt(failure, [&] { object_of(collectives).watch(); });
  };
}

}  // namespace

DeviceTable make_device_table(const Libraries& libraries) {
  DeviceTable table{
      .libraries = &libraries,
      .create = [](const void* opaque, const DeviceMember& member,
                   Failure& failure) noexcept -> void* {
        std::unique_ptr<DeviceCollectives> made;
        attempt(failure, [&] { made = make(libraries_of(opaque), member); });
        return made.release();
      },
      .connect =
          [](void* collectives, const Token& token, std::int64_t left, Failure& failure) noexcept {
            return attempt(failure, [&] {
              ncclUniqueId id;
              std::memcpy(&id, token.data(), sizeof id);
              object_of(collectives).connect(id, deadline_of(left));
            });
          },
      .mark = [](void* collectives, void* stream, Failure& failure) noexcept -> void* {
        void* mark = nullptr;
        attempt(failure, [&] { mark = object_of(collectives).mark(stream); });
        return mark;
      },
      .hold =
          [](void* collectives, void* stream, std::uint64_t launches, Failure& failure) noexcept {
            return attempt(failure, [&] { object_of(collectives).hold(stream, launches); });
          },
      .launch =
          [](void* collectives, const Operation& operation, std::int64_t left,
             Failure& failure) noexcept {
            return attempt(failure,
                           [&] { object_of(collectives).launch(operation, deadline_of(left)); });
          },
      .ended =
          [](void* collectives, std::uint64_t& launches, Failure& failure) noexcept {
            return attempt(failure, [&] { launches = object_of(collectives).ended(); });
          },
      .await =
          [](void* collectives, void* mark, std::int64_t left, Failure& failure) noexcept {
            return attempt(failure, [&] { object_of(collectives).await(mark, deadline_of(left)); });
          },
      .finish = [](void* collectives) noexcept { object_of(collectives).finish(); },
      .abort = [](void* collectives,
                  const char* reason) noexcept { object_of(collectives).abort(reason); },
      .destroy =
          [](void* collectives) noexcept { DeviceCollectives::destroy(&object_of(collectives)); },
      .memory = make_memory_table(),
      .registered = make_registered_table(),
  };
  add_library_calls(table);
  add_capture_calls(table);
  return table;
}

}  // namespace ddprun::nccl
