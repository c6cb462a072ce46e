#include "worker_runtime/backends/module/module_backend.hpp"

#include "worker_runtime/backends/module/module.hpp"
#include "worker_runtime/backends/module/recorded_progress.hpp"
#include <ddprun/error.hpp>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <variant>
#include <vector>

namespace ddprun {

namespace {

using module::Failure;
using module::Table;

constexpr std::size_t kAlignment = 64;  // what ProcessGroup::allocate() promises

std::string last_problem() {
  const char* text = ::dlerror();
  return text == nullptr ? "it has no entry" : text;
}

/// Beside the program, as in a build folder, and where an installation has its libraries. The
/// loader looks further, first where the program was linked to look.
std::vector<std::filesystem::path> own_folders() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder, folder.parent_path() / DDPRUN_LIBRARY_FOLDER};
}

std::string path_of(const std::string& file) {
  std::error_code ignored;
  for (const auto& folder : own_folders()) {
    if (std::filesystem::exists(folder / file, ignored)) return folder / file;
  }
  return file;
}

/// `is_found`: it, or what it needs, cannot be used. Otherwise nobody knows where it is.
std::string why_not_loaded(bool is_found) {
  std::string reason = "its module cannot be loaded: " + last_problem();
  if (is_found) return reason;
  reason += " (looked in ";
  for (const auto& folder : own_folders()) reason += folder.string() + ", ";
  return reason + "where the program was linked to look, LD_LIBRARY_PATH, the system's folders)";
}

/// The module's functions, or why there are none.
std::variant<const Table*, std::string> load(const std::string& name) {
  const std::string file = "libddprun_" + name + ".so";
  const std::string path = path_of(file);
  // Never closed: threads of the library may outlive the last group.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return why_not_loaded(path != file);
  const auto entry = reinterpret_cast<module::Entry>(::dlsym(library, module::kEntryName));
  if (entry == nullptr) return path + ": " + last_problem();
  const Table* table = entry();
  if (table->version == module::kVersion) return table;
  return path + " is of version " + std::to_string(table->version) + ", and version " +
         std::to_string(module::kVersion) + " is needed";
}

[[noreturn]] void raise(const Failure& failure) {
  if (failure.is_of_peer) throw PeerFailed(failure.peer, failure.text);
  throw Error(failure.code, failure.text);
}

std::int64_t left_until(Deadline deadline) {
  if (deadline.is_never()) return module::kNever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.remaining()).count();
}

class ModuleBackend : public Backend {
 public:
  ModuleBackend(const Table& table, const module::Member& member)
      : table_(table), group_(member.group), slot_(member.control_page_slot) {
    if (member.control_page_fd >= 0)
      page_ = control::ControlPage::attach_again(member.control_page_fd, slot_);
    Failure failure;
    backend_ = table_.create(member, failure);
    if (backend_ == nullptr) raise(failure);
  }
  ~ModuleBackend() override { table_.destroy(backend_); }

  void enter(Deadline deadline) override {
    Failure failure;
    if (!table_.enter(backend_, left_until(deadline), failure)) raise(failure);
  }
  void leave() noexcept override { table_.leave(backend_); }

  void run(const Operation& operation, Deadline deadline) override {
    Failure failure;
    if (table_.run(backend_, operation, left_until(deadline), failure)) return;
    if (failure.code == Errc::timeout && !is_message(operation.collective)) explain(failure);
    raise(failure);
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, whole);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    return {memory, std::free};
  }

  std::string hold_up() const override {
    return page_ ? recorded_hold_up(*page_, slot_, group_) : std::string();
  }

  void abort(const std::string& reason) noexcept override {
    table_.abort(backend_, reason.c_str());
  }

 private:
  void explain(Failure& failure) const {
    const std::string reason = hold_up();
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
                              .node_rank = env.node_rank,
                              .world_rank = place.world_rank,
                              .world_size = place.world_size,
                              .workers = place.workers.empty() ? nullptr : place.workers.data(),
                              .is_of_mpirun = !env.mpi_vendor.empty(),
                              .control_page_fd = env.control_page_fd.value_or(-1),
                              .control_page_slot = env.control_page_slot};
  return std::make_unique<ModuleBackend>(*std::get<const Table*>(loaded), member);
}

}  // namespace ddprun
