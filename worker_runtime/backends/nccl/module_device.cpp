#include "worker_runtime/backends/nccl/module_device.hpp"

#include "worker_runtime/backends/module/border.hpp"
#include <ddprun/error.hpp>

#include <utility>

namespace ddprun::nccl {

ModuleDevice::ModuleDevice(WatchfulBackend& host, const DeviceTable& table, Place place,
                           std::function<std::string()> stall_reason)
    : host_(host),
      table_(table),
      place_(std::move(place)),
      stall_reason_(std::move(stall_reason)) {}

ModuleDevice::~ModuleDevice() {
  if (void* made = collectives_.load()) table_.destroy(made);
  if (void* made = memory_.load()) table_.memory.destroy(made);
}

/// Created on first use, since CUDA allocates hundreds of megabytes on a device for each process.
void* ModuleDevice::collectives() {
  if (void* made = collectives_.load()) return made;
  const std::lock_guard lock(making_);
  if (void* made = collectives_.load()) return made;
  module::Failure failure;
  void* const made = table_.create(table_.libraries,
                                   {.rank = place_.rank,
                                    .ranks = place_.ranks,
                                    .device = place_.device.index,
                                    .group = place_.group.c_str(),
                                    .look = look,
                                    .context = this},
                                   failure);
  if (made == nullptr) module::raise(failure);
  collectives_.store(made);
  // A concurrent abort() may have preceded the store.
  host_.check();
  return made;
}

void* ModuleDevice::memory() {
  if (void* made = memory_.load()) return made;
  const std::lock_guard lock(making_);
  if (void* made = memory_.load()) return made;
  module::Failure failure;
  void* const made = table_.memory.create(table_.libraries, place_.device.index, failure);
  if (made == nullptr) module::raise(failure);
  memory_.store(made);
  return made;
}

bool ModuleDevice::look(const void* context, module::Failure& failure) noexcept {
  return module::attempt(failure,
                         [&] { static_cast<const ModuleDevice*>(context)->host_.check(); });
}

void ModuleDevice::connect(Deadline deadline) {
  module::Failure failure;
  Token token{};
  if (place_.rank == 0 && !table_.make_token(table_.libraries, token, failure))
    module::raise(failure);
  const Buffer shared = as_buffer(token.data(), token.size());
  host_.run({.collective = Collective::broadcast, .input = shared, .output = shared}, deadline);
  if (!table_.connect(collectives(), token, module::left_until(deadline), failure))
    module::raise(failure);
}

/// Aborts the group, since the other ranks wait for this one. Has no effect if the group has
/// failed.
void ModuleDevice::fail(const module::Failure& failure) {
  std::string text = failure.text;
  if (!has_failed_.exchange(true) && failure.code == Errc::timeout) {
    const std::string reason = stall_reason_();
    if (!reason.empty()) text += ": " + reason;
  }
  host_.abort(text);
  if (failure.is_of_peer) throw PeerFailed(failure.peer, text);
  throw Error(failure.code, text);
}

void* ModuleDevice::mark(void* stream) {
  module::Failure failure;
  void* const made = table_.mark(collectives(), stream, failure);
  if (made == nullptr) module::raise(failure);
  return made;
}

void ModuleDevice::launch(const Operation& operation, Deadline deadline) {
  module::Failure failure;
  const auto meet = [&] {
    // A group of one rank needs neither communicator nor NCCL.
    if (place_.ranks > 1 && !std::exchange(is_connected_, true)) connect(deadline);
  };
  if (module::attempt(failure, meet) &&
      table_.launch(collectives(), operation, module::left_until(deadline), failure))
    return;
  fail(failure);
}

std::uint64_t ModuleDevice::ended() {
  module::Failure failure;
  std::uint64_t launches = 0;
  if (!table_.ended(collectives(), launches, failure)) fail(failure);
  return launches;
}

std::uint64_t ModuleDevice::capture_of(void* stream) {
  module::Failure failure;
  std::uint64_t capture = 0;
  if (!table_.capture_of(collectives(), stream, capture, failure)) module::raise(failure);
  return capture;
}

std::uint64_t ModuleDevice::capture(const Operation& operation, void* stream, Deadline deadline) {
  module::Failure failure;
  std::uint64_t call = 0;
  if (table_.capture(collectives(), operation, stream, module::left_until(deadline), call, failure))
    return call;
  // A refusal without side effects, on all ranks.
  if (failure.code == Errc::usage) module::raise(failure);
  fail(failure);
}

void ModuleDevice::watch() {
  module::Failure failure;
  if (!table_.watch(collectives(), failure)) fail(failure);
}

void ModuleDevice::hold_captured(void* stream, std::uint64_t capture, std::uint64_t call) {
  module::Failure failure;
  if (!table_.hold_captured(collectives(), stream, capture, call, failure)) module::raise(failure);
}

void ModuleDevice::await(void* mark, Deadline deadline) {
  module::Failure failure;
  if (!table_.await(collectives(), mark, module::left_until(deadline), failure)) fail(failure);
}

void ModuleDevice::hold(void* stream, std::uint64_t launches) {
  module::Failure failure;
  if (!table_.hold(collectives(), stream, launches, failure)) module::raise(failure);
}

std::shared_ptr<void> ModuleDevice::allocate(std::size_t bytes) {
  module::Failure failure;
  void* const allocated = table_.memory.allocate(memory(), bytes, failure);
  if (allocated == nullptr) module::raise(failure);
  // Captures only the table, since the memory may outlive this object.
  return {allocated, [&table = table_, device = place_.device.index](void* given_back) {
            table.memory.release(table.libraries, device, given_back);
          }};
}

std::shared_ptr<void> ModuleDevice::allocate_registered(std::size_t bytes) {
  module::Failure failure;
  void* const made = table_.registered.create(collectives(), bytes, failure);
  if (made == nullptr) {
    write_log(place_.log, LogLevel::info,
              "process group \"" + place_.group + "\": rank " + std::to_string(place_.rank) +
                  " has no memory that NCCL reduces without copies: " + failure.text);
    return nullptr;
  }
  return {table_.registered.data(made),
          [&table = table_, made](void*) { table.registered.destroy(made); }};
}

void ModuleDevice::convert(std::span<const DevicePiece> pieces, DataType from, DataType to,
                           double scale, void* stream) {
  module::Failure failure;
  if (!table_.memory.convert(memory(), pieces.data(), pieces.size(), from, to, scale, stream,
                             failure))
    module::raise(failure);
}

void ModuleDevice::add(std::span<const DevicePiece> pieces, DataType from, void* stream) {
  module::Failure failure;
  if (!table_.memory.add(memory(), pieces.data(), pieces.size(), from, stream, failure))
    module::raise(failure);
}

void ModuleDevice::zero(void* given, std::size_t bytes, void* stream) {
  module::Failure failure;
  if (!table_.memory.zero(memory(), given, bytes, stream, failure)) module::raise(failure);
}

void ModuleDevice::order(void* before, void* after) {
  module::Failure failure;
  if (!table_.memory.order(memory(), before, after, failure)) module::raise(failure);
}

void ModuleDevice::copy(void* to, const void* from, std::size_t bytes, Deadline deadline) {
  module::Failure failure;
  if (!table_.memory.copy(memory(), to, from, bytes, module::left_until(deadline), failure))
    module::raise(failure);
}

void ModuleDevice::finish() noexcept {
  if (is_connected_ && !has_failed_) table_.finish(collectives_.load());
}

void ModuleDevice::abort(const std::string& reason) noexcept {
  if (void* made = collectives_.load()) table_.abort(made, reason.c_str());
}

}  // namespace ddprun::nccl
