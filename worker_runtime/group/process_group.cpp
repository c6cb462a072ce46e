#include "rendezvous/base/rank_problems.hpp"
#include "worker_runtime/group/device_queue_of.hpp"
#include "worker_runtime/group/option_checks.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include "worker_runtime/group/registry.hpp"
#include "worker_runtime/group/subgroup.hpp"
#include "worker_runtime/group/waiting_notice.hpp"
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/process_group.hpp>

#include <algorithm>
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
  if (state_->capture != 0) {
    throw Error(Errc::usage, std::string(to_string(state_->operation.collective)) +
                                 " was captured into a graph, and the host cannot wait for it: it "
                                 "runs when the graph is launched (hold() a stream of the capture "
                                 "for it, and wait for the stream of the launch)");
  }
  if (!is_done()) state_->queue->wait(*state_, deadline);
  if (state_->failure) std::rethrow_exception(state_->failure);
}

void Work::hold(void* stream) const {
  if (!state_) return;
  if (!is_done() || state_->capture != 0) state_->queue->hold(*state_, stream);
  if (is_done() && state_->failure) std::rethrow_exception(state_->failure);
}

void Work::record_end_time() const {
  if (state_) state_->queue->record_end_time(*state_);
}

std::optional<Deadline::Clock::time_point> Work::end_time() const {
  if (!state_) return std::nullopt;
  return state_->queue->end_time(*state_);
}

std::vector<BackendInfo> available_backends() {
  std::vector<BackendInfo> backends;
  for (const auto& entry : backend_entries())
    backends.push_back({entry.name, entry.unavailable_reason(WorkerEnv{})});
  return backends;
}

namespace {

std::shared_ptr<ProcessGroup::Impl> connect(const GroupPlace& place, const BackendEntry& entry,
                                            const GroupOptions& options, Deadline deadline) {
  // First, so that the flight recorder shows this rank while it waits for the others.
  CallLog log(place.env, {.name = options.name,
                          .rank = place.env.rank,
                          .size = place.env.world_size,
                          .members = place.workers});
  return std::make_shared<ProcessGroup::Impl>(
      place, entry.name, entry.create(place, options, deadline), options, std::move(log));
}

/// Returns the group once its ranks have entered it.
ProcessGroup enter(std::shared_ptr<ProcessGroup::Impl> impl, Deadline deadline) {
  impl->start(deadline);
  impl->wait_entered();
  return ProcessGroup(std::move(impl));
}

}  // namespace

ProcessGroup ProcessGroup::create(const WorkerEnv& env, const GroupOptions& options) {
  check_group_options(options);
  if (const auto problems = rank_problems(env); !problems.empty())
    throw Error(Errc::usage, "process group: " + problems);
  const auto deadline = Deadline::after(options.join_timeout);
  const WaitingNotice notice(env, options, deadline);
  const auto [entry, note] = choose_backend(backend_entries(), env, options);
  // All ranks of the node would write the same.
  if (!note.empty() && env.local_rank == 0) write_log(options.log, LogLevel::info, note);
  return enter(connect(place_among_all(env), *entry, options, deadline), deadline);
}

ProcessGroup create_among(const WorkerEnv& env, const std::vector<int>& workers,
                          const std::vector<int>& nodes, const GroupOptions& options) {
  check_group_options(options);
  if (const auto refusal = refuse_ranks(workers, env.world_size); !refusal.empty())
    throw Error(Errc::usage, "process group \"" + options.name + "\": " + refusal);
  const auto deadline = Deadline::after(options.join_timeout);
  std::vector<int> node_of(static_cast<std::size_t>(env.world_size));
  for (std::size_t i = 0; i < workers.size(); ++i)
    node_of[static_cast<std::size_t>(workers[i])] = nodes[i];
  const auto& entry = *choose_backend(backend_entries(), env, options).entry;
  const auto place = place_among(place_among_all(env), workers, node_of);
  return enter(connect(place, entry, options, deadline), deadline);
}

std::optional<ProcessGroup> ProcessGroup::new_group(const std::vector<int>& ranks,
                                                    const std::string& name) {
  return new_group(ranks, name, impl().options());
}

std::optional<ProcessGroup> ProcessGroup::new_group(const std::vector<int>& ranks,
                                                    const std::string& name,
                                                    const GroupOptions& options) {
  GroupOptions named = options;
  named.name = impl().subgroup_name(name);
  std::string refusal = refuse_ranks(ranks, size());
  if (refusal.empty()) refusal = refuse_options(named);
  if (refusal.empty() && impl().has_had(named.name))
    refusal = "there has been a group \"" + named.name + "\" already";
  const auto share = [this](Buffer own, Buffer all) {
    impl().call({Collective::new_group, own, all}).wait();
  };
  const auto nodes = agree_on_subgroup(
      share, size(), {named.name, ranks, impl().place().env.node_rank, std::move(refusal)});
  impl().note_subgroup(named.name, name.empty());
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return std::nullopt;
  const auto deadline = Deadline::after(named.join_timeout);
  const GroupPlace place = place_among(impl().place(), ranks, nodes);
  auto made = impl().regions() != nullptr
                  ? connect_in_process(place, impl().regions(), named)
                  : connect(place, find_backend(backend()), named, deadline);
  return enter(std::move(made), deadline);
}

ProcessGroup::ProcessGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProcessGroup::Impl& ProcessGroup::impl() const {
  if (impl_) return *impl_;
  throw Error(Errc::usage,
              "process group: this handle was moved from; call the one that it was moved to");
}

int ProcessGroup::rank() const {
  return impl().rank();
}
int ProcessGroup::size() const {
  return impl().size();
}
const std::string& ProcessGroup::backend() const {
  return impl().backend();
}
const std::string& ProcessGroup::name() const {
  return impl().options().name;
}

std::vector<int> ProcessGroup::workers() const {
  std::vector<int> workers;
  workers.reserve(static_cast<std::size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) workers.push_back(impl().place().names().number(rank));
  return workers;
}

std::shared_ptr<void> ProcessGroup::allocate(std::size_t bytes) {
  return impl().allocate(bytes);
}

std::shared_ptr<void> ProcessGroup::allocate(std::size_t bytes, Device device) {
  if (device.kind == Device::Kind::cpu) return allocate(bytes);
  if (impl().device() == nullptr) {
    throw Error(Errc::usage, "process group \"" + name() + "\": backend " + backend() +
                                 " does not support device memory; use nccl");
  }
  if (const Device& own = impl().device()->device(); device != own) {
    throw Error(Errc::usage, "process group \"" + name() + "\": memory on CUDA device " +
                                 std::to_string(device.index) + "; this rank uses device " +
                                 std::to_string(own.index));
  }
  return impl().allocate(std::max<std::size_t>(bytes, 1), &device);
}

DeviceQueue* device_queue_of(const ProcessGroup& group) {
  return group.impl().device();
}

void* ProcessGroup::stream() const {
  return impl().stream();
}

void ProcessGroup::set_stream(void* stream) {
  impl().set_stream(stream);
}

Work ProcessGroup::all_reduce(Buffer buffer, ReduceOp op) {
  return impl().call({Collective::all_reduce, buffer, buffer, op});
}

Work ProcessGroup::broadcast(Buffer buffer, int root) {
  return impl().call(
      {.collective = Collective::broadcast, .input = buffer, .output = buffer, .peer = root});
}

Work ProcessGroup::all_gather(Buffer input, Buffer output) {
  return impl().call({Collective::all_gather, input, output});
}

Work ProcessGroup::reduce_scatter(Buffer input, Buffer output, ReduceOp op) {
  return impl().call({Collective::reduce_scatter, input, output, op});
}

Work ProcessGroup::reduce(Buffer buffer, int root, ReduceOp op) {
  return impl().call({Collective::reduce, buffer, buffer, op, root});
}

Work ProcessGroup::gather(Buffer input, Buffer output, int root) {
  const Buffer nothing{.type = input.type};
  return impl().call({.collective = Collective::gather,
                      .input = input,
                      .output = root == rank() ? output : nothing,
                      .peer = root});
}

Work ProcessGroup::scatter(Buffer input, Buffer output, int root) {
  const Buffer nothing{.type = output.type};
  return impl().call({.collective = Collective::scatter,
                      .input = root == rank() ? input : nothing,
                      .output = output,
                      .peer = root});
}

Work ProcessGroup::all_to_all(Buffer input, Buffer output) {
  return impl().call({Collective::all_to_all, input, output});
}

Work ProcessGroup::send(Buffer buffer, int to, int tag) {
  return impl().call({.collective = Collective::send, .input = buffer, .peer = to, .tag = tag});
}

Work ProcessGroup::recv(Buffer buffer, int from, int tag) {
  return impl().call({.collective = Collective::recv, .output = buffer, .peer = from, .tag = tag});
}

Work ProcessGroup::barrier() {
  return impl().call({.collective = Collective::barrier});
}

void ProcessGroup::abort(const std::string& reason) {
  impl().abort(reason);
}

}  // namespace ddprun
