#include "worker_runtime/python/c_calls.hpp"

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include <ddprun/process_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::python {

/// A group, until it is closed, by any thread.
struct Group {
  std::mutex mutex;
  std::optional<ProcessGroup> group;  ///< nothing after the end
};

struct StartedWork {
  Work work;
};

namespace {

// python/ddprun/torch.py has these values, too.
static_assert(static_cast<int>(Collective::scatter) == 6 &&
              static_cast<int>(Collective::barrier) == 10);
static_assert(static_cast<int>(DataType::float32) == 0 && static_cast<int>(DataType::int32) == 4 &&
              static_cast<int>(DataType::uint8) == 6);
static_assert(static_cast<int>(ReduceOp::sum) == 0 && static_cast<int>(ReduceOp::product) == 2 &&
              static_cast<int>(ReduceOp::max) == 4);

struct Failure {
  std::string message;
  bool is_of_peer = false;
};

Failure& last_failure() {
  thread_local Failure failure;
  return failure;
}

/// Calls `function`, whose exceptions must not reach Python. Returns false if it has thrown one.
template <typename Function>
bool succeeds(Function function) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    last_failure() = {error.what(), dynamic_cast<const PeerFailed*>(&error) != nullptr};
  } catch (...) {
    last_failure() = {"unknown error"};
  }
  return false;
}

/// Returns a handle that keeps the group for the duration of a call.
ProcessGroup open_group(Group& group) {
  const std::lock_guard lock(group.mutex);
  if (group.group) return *group.group;
  throw Error(Errc::closed, "the process group has been destroyed");
}

Deadline::Duration duration(double seconds) {
  // Longer limits would overflow the clock.
  constexpr double kYear = 365 * 24 * 3600.0;
  return std::chrono::duration_cast<Deadline::Duration>(
      std::chrono::duration<double>(std::min(seconds, kYear)));
}

void print(LogLevel level, std::string_view line) {
  if (level < LogLevel::warn) return;
  std::fprintf(stderr, "ddprun: %.*s\n", static_cast<int>(line.size()), line.data());
}

Work start(ProcessGroup& group, const Call& call) {
  const auto type = static_cast<DataType>(call.type);
  const auto reduction = static_cast<ReduceOp>(call.reduction);
  const Buffer input{call.input, call.input_elements, type};
  const Buffer output{call.output, call.output_elements, type};
  switch (static_cast<Collective>(call.collective)) {
    case Collective::all_reduce:
      return group.all_reduce(output, reduction);
    case Collective::broadcast:
      return group.broadcast(output, call.root);
    case Collective::all_gather:
      return group.all_gather(input, output);
    case Collective::reduce_scatter:
      return group.reduce_scatter(input, output, reduction);
    case Collective::reduce:
      return group.reduce(output, call.root, reduction);
    case Collective::gather:
      return group.gather(input, output, call.root);
    case Collective::scatter:
      return group.scatter(input, output, call.root);
    case Collective::barrier:
      return group.barrier();
    case Collective::all_to_all:
    case Collective::send:
    case Collective::recv:
    case Collective::new_group:
      break;
  }
  throw Error(Errc::internal, "invalid collective " + std::to_string(call.collective));
}

}  // namespace

const char* ddprun_last_error() noexcept {
  return last_failure().message.c_str();
}

std::int32_t ddprun_has_peer_failed() noexcept {
  return last_failure().is_of_peer;
}

Group* ddprun_create_group(const char* name, const std::int32_t* ranks, const std::int32_t* nodes,
                           std::int32_t count, double seconds) noexcept {
  Group* created = nullptr;
  succeeds([&] {
    GroupOptions options{.backend = "host", .name = name, .log = print};
    options.join_timeout = options.collective_timeout = duration(seconds);
    options.has_calling_threads = true;
    const auto env = from_process_environment();
    auto group = count == 0
                     ? ProcessGroup::create(env, options)
                     : create_among(env, {ranks, ranks + count}, {nodes, nodes + count}, options);
    created = new Group{.mutex = {}, .group = std::move(group)};
  });
  return created;
}

void ddprun_close_group(Group* group) noexcept {
  succeeds([group] {
    std::optional<ProcessGroup> ending;  // destroyed after the mutex is released
    const std::lock_guard lock(group->mutex);
    ending.swap(group->group);
  });
}

void ddprun_delete_group(Group* group) noexcept {
  delete group;
}

void ddprun_abort_group(Group* group, const char* reason) noexcept {
  succeeds([&] { open_group(*group).abort(reason); });
}

StartedWork* ddprun_start(Group* group, const Call* call) noexcept {
  StartedWork* started = nullptr;
  succeeds([&] {
    auto open = open_group(*group);
    started = new StartedWork{start(open, *call)};
  });
  return started;
}

std::int32_t ddprun_wait(const StartedWork* work, double seconds) noexcept {
  return succeeds([&] {
    if (seconds > 0) {
      work->work.wait(Deadline::after(duration(seconds)));
    } else {
      work->work.wait();
    }
  });
}

std::int32_t ddprun_is_done(const StartedWork* work) noexcept {
  return work->work.is_done();
}

void ddprun_delete_work(StartedWork* work) noexcept {
  delete work;
}

}  // namespace ddprun::python
