#include "worker_runtime/backends/in_process/in_process_backend.hpp"
#include "worker_runtime/group/checks.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include "worker_runtime/group/registry.hpp"
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/process_group.hpp>

#include <utility>

namespace ddprun {

Work::Work() : Work(nullptr) {}
Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

bool Work::is_done() const {
  return !state_ || state_->is_done.load(std::memory_order_acquire);
}

void Work::wait() const {
  static const Deadline never = Deadline::never();
  wait(never);
}

void Work::wait(Deadline deadline) const {
  if (!state_) return;
  if (!is_done()) state_->queue->wait(*state_, deadline);
  if (state_->failure) std::rethrow_exception(state_->failure);
}

std::vector<BackendInfo> available_backends() {
  std::vector<BackendInfo> backends;
  for (const auto& entry : backend_entries())
    backends.push_back({entry.name, entry.unavailable_reason(WorkerEnv{})});
  return backends;
}

ProcessGroup ProcessGroup::create(const WorkerEnv& env, const GroupOptions& options) {
  const auto deadline = Deadline::after(options.join_timeout);
  const BackendEntry& entry = choose_backend(env, options);
  // First, so that who waits for the others can be seen to wait.
  CallLog log(env, {.name = options.name, .rank = env.rank, .size = env.world_size});
  auto impl = std::make_shared<Impl>(env.rank, env.world_size, entry.name,
                                     entry.create(env, options, deadline), options, std::move(log));
  impl->start(deadline);
  impl->wait_entered();
  return ProcessGroup(std::move(impl));
}

std::vector<ProcessGroup> ProcessGroup::create_in_process(int size, const GroupOptions& options) {
  return create_in_process_groups(create_in_process_backends(size, options), options);
}

std::vector<ProcessGroup> create_in_process_groups(std::vector<std::unique_ptr<Backend>> backends,
                                                   const GroupOptions& options) {
  const auto deadline = Deadline::after(options.join_timeout);
  const int size = static_cast<int>(backends.size());
  std::vector<std::shared_ptr<ProcessGroup::Impl>> impls;
  for (int rank = 0; rank < size; ++rank) {
    auto& backend = backends[static_cast<std::size_t>(rank)];
    CallLog log({.name = options.name, .rank = rank, .size = size});
    impls.push_back(std::make_shared<ProcessGroup::Impl>(
        rank, size, "in_process", std::move(backend), options, std::move(log)));
    impls.back()->start(deadline);
  }
  std::vector<ProcessGroup> groups;
  for (auto& impl : impls) {
    impl->wait_entered();
    groups.emplace_back(impl);
  }
  return groups;
}

ProcessGroup::ProcessGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

int ProcessGroup::rank() const {
  return impl_->rank();
}
int ProcessGroup::size() const {
  return impl_->size();
}
const std::string& ProcessGroup::backend() const {
  return impl_->backend();
}

std::shared_ptr<void> ProcessGroup::allocate(std::size_t bytes) {
  return impl_->allocate(bytes);
}

Work ProcessGroup::all_reduce(Buffer buffer, ReduceOp op) {
  return impl_->call({Collective::all_reduce, buffer, buffer, op});
}

Work ProcessGroup::broadcast(Buffer buffer, int root) {
  return impl_->call(
      {.collective = Collective::broadcast, .input = buffer, .output = buffer, .peer = root});
}

Work ProcessGroup::all_gather(Buffer input, Buffer output) {
  return impl_->call({Collective::all_gather, input, output});
}

Work ProcessGroup::reduce_scatter(Buffer input, Buffer output, ReduceOp op) {
  return impl_->call({Collective::reduce_scatter, input, output, op});
}

Work ProcessGroup::reduce(Buffer buffer, int root, ReduceOp op) {
  return impl_->call({Collective::reduce, buffer, buffer, op, root});
}

Work ProcessGroup::gather(Buffer input, Buffer output, int root) {
  const Buffer nothing{.type = input.type};
  return impl_->call({.collective = Collective::gather,
                      .input = input,
                      .output = root == rank() ? output : nothing,
                      .peer = root});
}

Work ProcessGroup::scatter(Buffer input, Buffer output, int root) {
  const Buffer nothing{.type = output.type};
  return impl_->call({.collective = Collective::scatter,
                      .input = root == rank() ? input : nothing,
                      .output = output,
                      .peer = root});
}

Work ProcessGroup::all_to_all(Buffer input, Buffer output) {
  return impl_->call({Collective::all_to_all, input, output});
}

Work ProcessGroup::send(Buffer buffer, int to, int tag) {
  return impl_->call({.collective = Collective::send, .input = buffer, .peer = to, .tag = tag});
}

Work ProcessGroup::recv(Buffer buffer, int from, int tag) {
  return impl_->call({.collective = Collective::recv, .output = buffer, .peer = from, .tag = tag});
}

Work ProcessGroup::barrier() {
  return impl_->call({.collective = Collective::barrier});
}

void ProcessGroup::abort(const std::string& reason) {
  impl_->abort(reason);
}

}  // namespace ddprun
