#include "worker_runtime/backends/module/module_backend.hpp"

#include "worker_runtime/backends/module/border.hpp"
#include "worker_runtime/backends/module/finding.hpp"
#include "worker_runtime/backends/module/module.hpp"
#include "worker_runtime/backends/module/recorded_progress.hpp"
#include <ddprun/error.hpp>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <variant>

namespace ddprun {

namespace {

using module::Failure;
using module::Table;

constexpr std::size_t kAlignment = 64;  // as promised by ProcessGroup::allocate()

/// Returns the module's functions, or the reason why they are unavailable.
std::variant<const Table*, std::string> load(const std::string& name) {
  const auto found = module::find_entry(name, module::kEntryName);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const auto& there = std::get<module::FoundEntry>(found);
  const Table* table = reinterpret_cast<module::Entry>(there.function)();
  if (table->version == module::kVersion) return table;
  return module::wrong_version(there.path, table->version, module::kVersion);
}

class ModuleBackend : public Backend {
 public:
  ModuleBackend(const Table& table, const module::Member& member, const WorkerEnv& env)
      : table_(table), group_(member.group), slot_(env.control_page_slot) {
    if (env.control_page_fd)
      page_ = control::ControlPage::attach_again(*env.control_page_fd, slot_);
    Failure failure;
    backend_ = table_.create(member, failure);
    if (backend_ == nullptr) module::raise(failure);
  }
  ~ModuleBackend() override { table_.destroy(backend_); }

  void enter(Deadline deadline) override {
    Failure failure;
    if (!table_.enter(backend_, module::left_until(deadline), failure)) module::raise(failure);
  }
  void leave() noexcept override { table_.leave(backend_); }

  void run(const Operation& operation, Deadline deadline) override {
    Failure failure;
    if (table_.run(backend_, operation, module::left_until(deadline), failure)) return;
    if (failure.code == Errc::timeout && !is_message(operation.collective)) explain(failure);
    module::raise(failure);
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, whole);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    return {memory, std::free};
  }

  std::string stall_reason() const override {
    return page_ ? recorded_hold_up(*page_, slot_, group_) : std::string();
  }

  void abort(const std::string& reason) noexcept override {
    table_.abort(backend_, reason.c_str());
  }

 private:
  void explain(Failure& failure) const {
    const std::string reason = stall_reason();
    if (reason.empty()) return;
    const std::string text = std::string(failure.text) + ": " + reason;
    failure.text[text.copy(failure.text, module::kTextBytesMax - 1)] = '\0';
  }

  const Table& table_;
  const std::string group_;
  const int slot_;
  std::optional<control::ControlPage> page_;
  void* backend_;
};

}  // namespace

std::string module_unavailable_reason(const std::string& name) {
  const auto loaded = load(name);
  const auto* reason = std::get_if<std::string>(&loaded);
  return reason == nullptr ? std::string() : *reason;
}

std::unique_ptr<Backend> create_module_backend(const std::string& name, const GroupPlace& place,
                                               const GroupOptions& options) {
  const auto loaded = load(name);
  if (const auto* reason = std::get_if<std::string>(&loaded)) throw Error(Errc::system, *reason);
  const WorkerEnv& env = place.env;
  const StoreEndpoint store = env.store();
  const module::Member member{.rank = env.rank,
                              .size = env.world_size,
                              .group = options.name.c_str(),
                              .store_host = store.host.c_str(),
                              .store_port = store.port,
                              .world_size = place.world_size,
                              .workers = place.workers.empty() ? nullptr : place.workers.data()};
  return std::make_unique<ModuleBackend>(*std::get<const Table*>(loaded), member, env);
}

}  // namespace ddprun
