#include "tests/support/fake_nccl.hpp"

#include "tests/support/fake_capture.hpp"
#include "tests/support/fake_cuda.hpp"
#include "tests/support/fake_nccl_memory.hpp"
#include "worker_runtime/collectives/half.hpp"
#include <ddprun/process_group.hpp>

#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {

namespace {

std::atomic<int> communicators = 0;
std::atomic<int> aborted = 0;
std::atomic<int> reported = 0;

/// State of one rank. Works on its stream hold it, too.
struct FakeComm {
  int rank = 0;
  int number = 0;  ///< of its unique id
  int device = fake_device();
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<ProcessGroup> group;  ///< once all have arrived
  bool is_aborted = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::atomic<int> graphs = 0;  ///< number of works in live graphs

  /// The end of a communicator waits for all graphs that contain it.
  void await_graphs() {
    for (int left = graphs; left != 0; left = graphs) graphs.wait(left);
  }

  void abort() {
    const std::lock_guard lock(mutex);
    if (group) group->abort("aborted");
    is_aborted = true;
    changed.notify_all();
  }

  /// Blocks like kernels whose peers have gone or have failed.
  void spin_until_aborted() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return is_aborted; });
  }
};

using Comm = std::shared_ptr<FakeComm>;

Comm& comm_of(ncclComm_t comm) {
  Comm& own = *reinterpret_cast<Comm*>(comm);
  check_fake_device(own->device);
  return own;
}

/// The ranks that have arrived at each unique id.
struct Meetings {
  std::mutex mutex;
  int last = 0;
  std::map<std::string, std::map<int, Comm>> ranks;
};

Meetings& meetings() {
  static Meetings all;
  return all;
}

const std::string kMeeting = "meeting ";

ncclResult_t make_id(ncclUniqueId* id) {
  nccl_faults().hangs_in_id.wait(true);
  if (nccl_faults().unique_id != ncclSuccess) return nccl_faults().unique_id;
  const std::lock_guard lock(meetings().mutex);
  const std::string text = kMeeting + std::to_string(++meetings().last);
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t join(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  const auto own = std::make_shared<FakeComm>();
  own->rank = rank;
  own->number = std::stoi(id.internal + kMeeting.size());
  *comm = reinterpret_cast<ncclComm_t>(new Comm(own));
  ++communicators;
  const std::lock_guard lock(meetings().mutex);
  auto& present = meetings().ranks[id.internal];
  present[rank] = own;
  if (static_cast<int>(present.size()) < ranks) return ncclInProgress;
  auto groups = ProcessGroup::create_in_process(ranks);
  for (const auto& [number, member] : present) {
    const std::lock_guard member_lock(member->mutex);
    member->group = groups[static_cast<std::size_t>(number)];
    member->state = ncclSuccess;
  }
  meetings().ranks.erase(id.internal);
  return ncclInProgress;
}

DataType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DataType::float32;
    case ncclFloat64:
      return DataType::float64;
    case ncclFloat16:
      return DataType::float16;
    case ncclBfloat16:
      return DataType::bfloat16;
    case ncclInt32:
      return DataType::int32;
    case ncclInt64:
      return DataType::int64;
    default:
      return DataType::uint8;
  }
}

ReduceOp op_of(ncclRedOp_t op) {
  constexpr std::array kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                               ReduceOp::average};
  return kOps[static_cast<std::size_t>(op)];
}

Buffer buffer_of(const void* data, std::size_t count, ncclDataType_t type) {
  return {const_cast<void*>(data), count, type_of(type)};
}

struct Fakes {};
using Halves = collectives::Half<Fakes>;

float float_of(std::uint16_t bits, DataType type) {
  return type == DataType::float16 ? Halves::from_float16(bits) : Halves::from_bfloat16(bits);
}

std::uint16_t half_of(float value, DataType type) {
  return type == DataType::float16 ? Halves::to_float16(value) : Halves::to_bfloat16(value);
}

template <typename Element, typename Multiply>
void multiply_each(Buffer values, const Multiply& multiply) {
  for (auto& value : std::span(static_cast<Element*>(values.data), values.elements))
    value = multiply(value);
}

/// Multiplies by 1/`ranks`, rounded to the type of the values.
void premultiply(Buffer values, int ranks) {
  const DataType type = values.type;
  if (type == DataType::float64)
    return multiply_each<double>(values, [=](double value) { return value * (1.0 / ranks); });
  const float inverse = 1.0F / static_cast<float>(ranks);
  if (type == DataType::float32)
    return multiply_each<float>(values, [=](float value) { return value * inverse; });
  const float factor = float_of(half_of(inverse, type), type);
  multiply_each<std::uint16_t>(
      values, [=](std::uint16_t bits) { return half_of(float_of(bits, type) * factor, type); });
}

/// The input of a reduction and the operation that follows. Like NCCL, an average multiplies float
/// inputs before the sum, and divides the sum of integers.
struct Reduced {
  std::vector<std::byte> copy;
  Buffer input;
  ReduceOp op;
};

Reduced reduced(Buffer input, ncclRedOp_t op, int ranks) {
  const bool is_integer = input.type == DataType::int32 || input.type == DataType::int64 ||
                          input.type == DataType::uint8;
  const auto* const bytes = static_cast<const std::byte*>(input.data);
  Reduced made{{bytes, bytes + input.bytes()}, input, op_of(op)};
  if (made.op != ReduceOp::average || is_integer) return made;
  made.input.data = made.copy.data();
  made.op = ReduceOp::sum;
  premultiply(made.input, ranks);
  return made;
}

using Body = std::function<void(ProcessGroup&)>;

/// Numbers of the communicators of all launches, by rank.
struct Launches {
  std::mutex mutex;
  std::map<int, std::vector<int>> of;
};

Launches& launches() {
  static Launches all;
  return all;
}

void note_launch(const FakeComm& comm) {
  const std::lock_guard lock(launches().mutex);
  launches().of[comm.rank].push_back(comm.number);
}

/// Runs on the stream, like a kernel.
ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, Body body) {
  const FakeNcclCall call(comm);
  note_launch(*comm_of(comm));
  const auto release = [own = comm_of(comm)] {
    --own->graphs;
    own->graphs.notify_all();
  };
  if (at_end_of_graph(stream, release)) ++comm_of(comm)->graphs;
  launch_on(stream, [comm = comm_of(comm), body = std::move(body)] {
    std::optional<ProcessGroup> group;
    {
      const std::lock_guard lock(comm->mutex);
      group = comm->group;
    }
    try {
      const auto fault = nccl_faults().collective.load();
      if (fault != ncclSuccess && comm->rank == 1) comm->state = fault;
      if (comm->state == ncclSuccess) return body(*group);
    } catch (const Error&) {
      // A peer has aborted; a kernel does not detect that.
    }
    comm->spin_until_aborted();
  });
  return ncclSuccess;
}

struct InGroup {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Body> sends;
  std::vector<Body> receives;
};

thread_local std::optional<InGroup> in_group;

ncclResult_t send(const void* input, std::size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  if (!in_group) return ncclInvalidUsage;
  in_group->comm = comm;
  in_group->stream = stream;
  in_group->sends.emplace_back(
      [=](ProcessGroup& group) { group.send(buffer_of(input, count, type), peer).wait(); });
  return ncclSuccess;
}

ncclResult_t recv(void* output, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  if (!in_group) return ncclInvalidUsage;
  in_group->comm = comm;
  in_group->stream = stream;
  in_group->receives.emplace_back(
      [=](ProcessGroup& group) { group.recv(buffer_of(output, count, type), peer).wait(); });
  return ncclSuccess;
}

ncclResult_t end_group() {
  const InGroup ended = std::move(*std::exchange(in_group, std::nullopt));
  if (ended.comm == nullptr) return ncclSuccess;
  return launch(ended.comm, ended.stream, [ended](ProcessGroup& group) {
    for (const auto& one : ended.sends) one(group);
    for (const auto& one : ended.receives) one(group);
  });
}

ncclResult_t revoke(ncclComm_t comm, int flags) {
  const Comm own = comm_of(comm);
  nccl_faults().hangs_in_revoke.wait(true);
  if (nccl_faults().revoke != ncclSuccess || flags != 0) return ncclInvalidUsage;
  if (nccl_faults().is_revoke_endless) {
    own->state = ncclInProgress;
    return ncclInProgress;
  }
  forget_memory(comm);
  own->abort();
  own->state = ncclSuccess;
  return ncclInProgress;
}

ncclResult_t all_reduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const Buffer result = buffer_of(output, count, type);
  const bool is_registered = is_fake_registered(comm, output, result.bytes());
  return launch(comm, stream, [=](ProcessGroup& group) {
    std::int32_t registered = is_registered ? 1 : 0;
    group.all_reduce(as_buffer(&registered, 1)).wait();
    note_all_reduce(registered, group.size());
    const Reduced own = reduced(buffer_of(input, count, type), op, group.size());
    if (own.input.data != output) std::memcpy(output, own.input.data, result.bytes());
    group.all_reduce(result, own.op).wait();
  });
}

ncclResult_t register_memory(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  if (nccl_faults().registration != ncclSuccess && comm_of(comm)->rank == 1)
    return nccl_faults().registration;
  *handle = nullptr;
  return nccl_faults().only_seems_to_register ? ncclSuccess
                                              : fake_register(comm, memory, bytes, handle);
}

ncclResult_t let_go(ncclComm_t comm, bool aborts) {
  Comm& own = comm_of(comm);
  forget_memory(comm);
  if (aborts) {
    if (nccl_faults().hangs_in_abort) std::this_thread::sleep_until(Deadline::never().time());
    own->abort();
    ++aborted;
  }
  own->await_graphs();
  delete &own;
  --communicators;
  return ncclSuccess;
}

}  // namespace

const nccl::NcclCalls& fake_nccl() {
  static constexpr nccl::NcclCalls kCalls{
      .get_version =
          [](int* version) {
            *version = NCCL_VERSION_CODE;
            return ncclSuccess;
          },
      .get_unique_id = make_id,
      .comm_init_rank_config = join,
      .comm_get_async_error =
          [](ncclComm_t comm, ncclResult_t* error) {
            *error = comm_of(comm)->state;
            if (*error != ncclSuccess && *error != ncclInProgress) {
              ++reported;
              reported.notify_all();
            }
            return ncclSuccess;
          },
      .comm_finalize = [](ncclComm_t) { return ncclSuccess; },
      .comm_destroy = [](ncclComm_t comm) { return let_go(comm, false); },
      .comm_abort = [](ncclComm_t comm) { return let_go(comm, true); },
      .comm_revoke = revoke,
      .mem_alloc =
          [](void** memory, size_t bytes) {
            const ncclResult_t fault = nccl_faults().allocation;
            return fault != ncclSuccess ? fault : fake_mem_alloc(memory, bytes);
          },
      .mem_free = fake_mem_free,
      .comm_register = register_memory,
      .comm_deregister = fake_deregister,
      .get_error_string =
          [](ncclResult_t result) {
            return result == ncclRemoteError ? "remote process exited" : "an error of the fake";
          },
      .get_last_error = [](ncclComm_t) { return "the fake was asked to"; },
      .all_reduce = all_reduce,
      .broadcast =
          [](const void* input, void* output, size_t count, ncclDataType_t type, int root,
             ncclComm_t comm, cudaStream_t stream) {
            const Buffer result = buffer_of(output, count, type);
            return launch(comm, stream, [=](ProcessGroup& group) {
              if (input != output && group.rank() == root)
                std::memcpy(output, input, result.bytes());
              group.broadcast(result, root).wait();
            });
          },
      .reduce =
          [](const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
             int root, ncclComm_t comm, cudaStream_t stream) {
            return launch(comm, stream, [=](ProcessGroup& group) {
              Reduced own = reduced(buffer_of(input, count, type), op, group.size());
              if (group.rank() == root) {
                if (own.input.data != output)
                  std::memcpy(output, own.input.data, own.input.bytes());
                own.input.data = output;
              }
              group.reduce(own.input, root, own.op).wait();
            });
          },
      .all_gather =
          [](const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
             cudaStream_t stream) {
            return launch(comm, stream, [=](ProcessGroup& group) {
              const auto all = count * static_cast<std::size_t>(group.size());
              group.all_gather(buffer_of(input, count, type), buffer_of(output, all, type)).wait();
            });
          },
      .reduce_scatter =
          [](const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream) {
            return launch(comm, stream, [=](ProcessGroup& group) {
              const auto all = count * static_cast<std::size_t>(group.size());
              const Reduced own = reduced(buffer_of(input, all, type), op, group.size());
              group.reduce_scatter(own.input, buffer_of(output, count, type), own.op).wait();
            });
          },
      .send = send,
      .recv = recv,
      .group_start =
          [] {
            in_group.emplace();
            return ncclSuccess;
          },
      .group_end = end_group};
  return kCalls;
}

NcclFaults& nccl_faults() {
  static NcclFaults faults;
  return faults;
}

std::vector<int> fake_launches(int rank) {
  const std::lock_guard lock(launches().mutex);
  return launches().of[rank];
}

int fake_aborts() {
  return aborted;
}

const std::atomic<int>& fake_reported_errors() {
  return reported;
}

int fake_communicators() {
  return communicators;
}

}  // namespace ddprun::test
