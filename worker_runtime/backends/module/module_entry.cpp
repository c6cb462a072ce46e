#include "worker_runtime/backends/module/module_entry.hpp"

#include "worker_runtime/backends/module/border.hpp"

namespace ddprun::module {

namespace {

Backend& backend_of(void* backend) {
  return *static_cast<Backend*>(backend);
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
