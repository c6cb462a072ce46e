// Backend over MPI, for programs started by mpirun. MPI combines in its own order, so the last
// bits differ from the host backend's. ddprun's kernels combine half types, which MPI lacks,
// two at a time.
#include "rendezvous/base/fnv1a.hpp"
#include "worker_runtime/backends/module/module_entry.hpp"
#include "worker_runtime/backends/mpi/mpi_messages.hpp"
#include "worker_runtime/backends/mpi/mpi_world.hpp"
#include "worker_runtime/backends/mpi/watchdog.hpp"
#include "worker_runtime/collectives/divide.hpp"
#include "worker_runtime/collectives/reduce_kernels.hpp"
#include <ddprun/error.hpp>
#include <ddprun/peer_failed.hpp>

#include <mpi.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::mpi {

namespace {

constexpr std::size_t kTags = 32768;  // guaranteed by the standard

bool is_half(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16;
}

MPI_Datatype type_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::float16:
    case DataType::bfloat16:
      return MPI_UINT16_T;
    case DataType::uint8:
      break;
  }
  return MPI_UINT8_T;
}

MPI_Op native_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::sum:
    case ReduceOp::average:
      break;
  }
  return MPI_SUM;
}

int count_of(Buffer buffer) {
  if (buffer.elements <= std::numeric_limits<int>::max()) return static_cast<int>(buffer.elements);
  throw Error(Errc::usage,
              std::to_string(buffer.elements) + " elements exceed MPI's limit of 2147483647");
}

/// An MPI operator has no user argument, so each combination has a function.
template <DataType Type, ReduceOp Op>
void combine_halves(void* in, void* in_out, int* count, MPI_Datatype*) {
  const std::array<const void*, 2> sources = {in, in_out};
  collectives::combine_function(Type, Op)(sources.data(), 2, &in_out, 1,
                                          static_cast<std::size_t>(*count));
}

template <DataType Type>
MPI_User_function* half_function(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return combine_halves<Type, ReduceOp::product>;
    case ReduceOp::min:
      return combine_halves<Type, ReduceOp::min>;
    case ReduceOp::max:
      return combine_halves<Type, ReduceOp::max>;
    case ReduceOp::sum:
    case ReduceOp::average:
      break;
  }
  return combine_halves<Type, ReduceOp::sum>;
}

/// The MPI operator of a call.
class Operator {
 public:
  Operator(DataType type, ReduceOp op) : op_(native_op(op)), is_own_(is_half(type)) {
    if (!is_own_) return;
    auto* const function = type == DataType::float16 ? half_function<DataType::float16>(op)
                                                     : half_function<DataType::bfloat16>(op);
    check(MPI_Op_create(function, 1, &op_), "MPI_Op_create");
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ~Operator() {
    if (is_own_) MPI_Op_free(&op_);
  }
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_;
  const bool is_own_;
};

class MpiBackend : public Backend {
 public:
  explicit MpiBackend(const module::Member& member) : member_(member), group_(member.group) {
    if (member.workers != nullptr) workers_.assign(member.workers, member.workers + member.size);
    member_.group = group_.c_str();
    member_.workers = nullptr;
  }

  void enter(Deadline) override {
    start(member_);
    make_communicator();
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int rank = 0;
    check(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
    if (rank != member_.rank) {
      throw Error(Errc::internal, "MPI: rank " + std::to_string(member_.rank) + " has number " +
                                      std::to_string(rank));
    }
    messages_.emplace(communicator_);
    watchdog_.emplace(group_, member_.size);
  }

  void leave() noexcept override {
    if (!watchdog_ || has_failed_) return give_up();
    try {
      messages_->flush();
      MPI_Comm_free(&communicator_);
    } catch (const std::exception&) {
      give_up();
    }
  }

  void run(const Operation& operation, Deadline deadline) override {
    try {
      watchdog_->begin(operation, deadline);
      carry_out(operation);
    } catch (const PeerFailed&) {
      has_failed_ = true;
      throw;
    } catch (const Error& error) {
      watchdog_->end();
      has_failed_ = true;
      const auto ranks = static_cast<std::size_t>(member_.size);
      throw Error(error.code(), describe_in(group_, operation, ranks) + ": " + error.what());
    }
    watchdog_->end();
  }

  // Any memory is suitable, and the runtime determines late ranks.
  std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
  std::string stall_reason() const override { return {}; }

  void abort(const std::string& reason) noexcept override {
    give_up();
    if (watchdog_) watchdog_->abort(reason);
  }

 private:
  void make_communicator() {
    if (workers_.empty()) {
      return check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
    }
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, member_.size, workers_.data(), &some), "MPI_Group_incl");
    // Distinguishes groups of the same ranks that are created concurrently by several threads.
    const int tag = static_cast<int>(fnv1a(group_) % kTags);
    const int error = MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &communicator_);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    check(error, "MPI_Comm_create_group");
  }

  void carry_out(const Operation& operation) {
    switch (operation.collective) {
      case Collective::send:
        return messages_->send(operation.input, operation.peer, operation.tag);
      case Collective::recv:
        return messages_->receive(operation.output, operation.peer, operation.tag);
      case Collective::barrier:
        return check(MPI_Barrier(communicator_), "MPI_Barrier");
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::reduce:
        return combine(operation);
      default:
        return move(operation);
    }
  }

  void combine(const Operation& operation) {
    const DataType type = operation.input.type;
    if (operation.op == ReduceOp::average && (type == DataType::int32 || type == DataType::uint8)) {
      throw Error(Errc::usage, std::string("average of ") + to_string(type) +
                                   ": MPI adds in the type itself, where the sum may not fit; use "
                                   "the host backend or another type");
    }
    const Operator op(type, operation.op);
    const Buffer result = combine_with(operation, op.get());
    if (operation.op == ReduceOp::average && result.elements > 0)
      collectives::divide(result, member_.size);
  }

  /// Returns the buffer with the result; empty on ranks without one.
  Buffer combine_with(const Operation& operation, MPI_Op op) {
    const Buffer& input = operation.input;
    const MPI_Datatype type = type_of(input.type);
    if (operation.collective == Collective::all_reduce) {
      check(MPI_Allreduce(MPI_IN_PLACE, operation.output.data, count_of(input), type, op,
                          communicator_),
            "MPI_Allreduce");
      return operation.output;
    }
    if (operation.collective == Collective::reduce) {
      // Not in place: MPICH 4.0 treats MPI_IN_PLACE as an address here.
      const Buffer own = scratch(input);
      if (own.bytes() > 0) std::memcpy(own.data, input.data, own.bytes());
      const bool is_root = operation.peer == member_.rank;
      check(MPI_Reduce(own.data, is_root ? operation.output.data : nullptr, count_of(input), type,
                       op, operation.peer, communicator_),
            "MPI_Reduce");
      return is_root ? operation.output : Buffer{};
    }
    // The output may be part of the input, which MPI_IN_PLACE does not cover.
    count_of(input);
    const Buffer result = scratch(operation.output);
    check(MPI_Reduce_scatter_block(input.data, result.data, count_of(result), type, op,
                                   communicator_),
          "MPI_Reduce_scatter_block");
    if (result.bytes() > 0) std::memcpy(operation.output.data, result.data, result.bytes());
    return operation.output;
  }

  void move(const Operation& operation) {
    const MPI_Datatype type = type_of(operation.output.type);
    const Buffer& input = operation.input;
    const Buffer& output = operation.output;
    const bool is_root = operation.peer == member_.rank;
    switch (operation.collective) {
      case Collective::broadcast:
        return check(MPI_Bcast(output.data, count_of(output), type, operation.peer, communicator_),
                     "MPI_Bcast");
      case Collective::all_gather:
      case Collective::new_group:
        return check(MPI_Allgather(in_place(input, own_part(output, input)), count_of(input), type,
                                   output.data, count_of(input), type, communicator_),
                     "MPI_Allgather");
      case Collective::gather:
        return check(MPI_Gather(in_place(input, is_root ? own_part(output, input) : nullptr),
                                count_of(input), type, output.data, count_of(input), type,
                                operation.peer, communicator_),
                     "MPI_Gather");
      case Collective::scatter:
        return check(MPI_Scatter(input.data, count_of(output), type,
                                 in_place(output, is_root ? own_part(input, output) : nullptr),
                                 count_of(output), type, operation.peer, communicator_),
                     "MPI_Scatter");
      default: {
        const int each = count_of(output) / member_.size;
        return check(MPI_Alltoall(in_place(input, output.data), each, type, output.data, each, type,
                                  communicator_),
                     "MPI_Alltoall");
      }
    }
  }

  /// Returns the address of this rank's part of `whole`.
  void* own_part(Buffer whole, Buffer part) const {
    return whole.slice(static_cast<std::size_t>(member_.rank) * part.elements, part.elements).data;
  }

  /// Returns MPI_IN_PLACE if the buffer is at the destination.
  static void* in_place(Buffer buffer, const void* place) {
    return buffer.elements > 0 && buffer.data == place ? MPI_IN_PLACE : buffer.data;
  }

  Buffer scratch(Buffer like) {
    scratch_.resize(like.bytes());
    return {scratch_.data(), like.elements, like.type};
  }

  module::Member member_;
  const std::string group_;
  std::vector<int> workers_;  ///< ranks among all workers; empty: all workers
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::optional<Messages> messages_;
  std::optional<Watchdog> watchdog_;
  std::vector<std::uint8_t> scratch_;
  bool has_failed_ = false;
};

}  // namespace

}  // namespace ddprun::mpi

std::unique_ptr<ddprun::Backend> ddprun::module::create(const Member& member) {
  return std::make_unique<mpi::MpiBackend>(member);
}
