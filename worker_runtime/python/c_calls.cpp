#include "worker_runtime/python/c_calls.hpp"

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include <ddprun/process_group.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::python {

struct Group {
  ProcessGroup group;
  Work last;  ///< the works of a group end in order
};

struct StartedWork {
  Work work;
};

namespace {

struct Failure {
  Errc code = Errc::internal;
  std::string message;
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
  } catch (const Error& error) {
    last_failure() = {error.code(), error.what()};
  } catch (const std::exception& error) {
    last_failure() = {Errc::internal, error.what()};
  }
  return false;
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
    case Collective::all_to_all:
      return group.all_to_all(input, output);
    case Collective::barrier:
      return group.barrier();
    case Collective::send:
    case Collective::recv:
    case Collective::new_group:
      break;
  }
  throw Error(Errc::internal, "invalid collective " + std::to_string(call.collective));
}

}  // namespace

const char* ddprun_last_error() {
  return last_failure().message.c_str();
}

std::int32_t ddprun_last_code() {
  return static_cast<std::int32_t>(last_failure().code);
}

Group* ddprun_create_group(const char* name, const std::int32_t* ranks, const std::int32_t* nodes,
                           std::int32_t count, double seconds) {
  Group* created = nullptr;
  succeeds([&] {
    GroupOptions options{.backend = "host", .name = name, .log = print};
    options.join_timeout = options.collective_timeout = duration(seconds);
    const auto env = from_process_environment();
    created = new Group{
        count == 0 ? ProcessGroup::create(env, options)
                   : create_among(env, {ranks, ranks + count}, {nodes, nodes + count}, options),
        {}};
  });
  return created;
}

void ddprun_stop_group(Group* group) {
  succeeds([group] {
    if (!group->last.is_done()) group->group.abort("the group was closed during a collective");
  });
}

void ddprun_close_group(Group* group) {
  delete group;
}

void ddprun_abort_group(Group* group, const char* reason) {
  succeeds([&] { group->group.abort(reason); });
}

StartedWork* ddprun_start(Group* group, const Call* call) {
  StartedWork* started = nullptr;
  succeeds([&] {
    group->last = start(group->group, *call);
    started = new StartedWork{group->last};
  });
  return started;
}

std::int32_t ddprun_wait(const StartedWork* work, double seconds) {
  return succeeds([&] {
    if (seconds > 0) {
      work->work.wait(Deadline::after(duration(seconds)));
    } else {
      work->work.wait();
    }
  });
}

std::int32_t ddprun_is_done(const StartedWork* work) {
  return work->work.is_done();
}

void ddprun_delete_work(StartedWork* work) {
  delete work;
}

}  // namespace ddprun::python
