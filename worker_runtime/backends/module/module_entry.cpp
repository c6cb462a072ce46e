#include "worker_runtime/backends/module/module_entry.hpp"

#include <ddprun/process_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

namespace ddprun::module {

namespace {

Backend& backend_of(void* backend) {
  return *static_cast<Backend*>(backend);
}

Deadline deadline_of(std::int64_t left) {
  return left == kNever ? Deadline::never() : Deadline::after(std::chrono::nanoseconds(left));
}

void describe(Failure& failure, const std::exception& exception) {
  const std::size_t length = std::min(std::strlen(exception.what()), kTextBytesMax - 1);
  std::memcpy(failure.text, exception.what(), length);
  failure.text[length] = '\0';
}

/// Calls `body`; false, with its failure described, if it throws.
template <typename Body>
bool attempt(Failure& failure, const Body& body) noexcept {
  try {
    body();
    return true;
  } catch (const PeerFailed& peer) {
    failure = {.code = peer.code(), .is_of_peer = true, .peer = peer.rank()};
    describe(failure, peer);
  } catch (const Error& error) {
    failure = {.code = error.code()};
    describe(failure, error);
  } catch (const std::exception& other) {
    failure = {.code = Errc::internal};
    describe(failure, other);
  }
  return false;
}

constexpr Table kTable{
    .create = [](const Member& member, Failure& failure) noexcept -> void* {
      std::unique_ptr<Backend> backend;
      attempt(failure, [&] { backend = create(member); });
      return backend.release();
    },
    .enter =
        [](void* backend, std::int64_t left, Failure& failure) noexcept {
          return attempt(failure, [&] { backend_of(backend).enter(deadline_of(left)); });
        },
    .run =
        [](void* backend, const Operation& operation, std::int64_t left,
           Failure& failure) noexcept {
          return attempt(failure, [&] { backend_of(backend).run(operation, deadline_of(left)); });
        },
    .abort = [](void* backend, const char* reason) noexcept { backend_of(backend).abort(reason); },
    .leave = [](void* backend) noexcept { backend_of(backend).leave(); },
    .destroy = [](void* backend) noexcept { delete static_cast<Backend*>(backend); },
};

}  // namespace

}  // namespace ddprun::module

extern "C" __attribute__((visibility("default"))) const ddprun::module::Table*
ddprun_backend_module() {
  return &ddprun::module::kTable;
}
