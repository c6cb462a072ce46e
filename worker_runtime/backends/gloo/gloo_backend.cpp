// Backend over Gloo (TCP), the library behind PyTorch's CPU backend; for comparison and for
// identical behaviour. ddprun's kernels combine two buffers at a time in Gloo's order, so the last
// bits differ from the host backend's, and half types are rounded after each step.
#include "worker_runtime/backends/backend_agreement.hpp"
#include "worker_runtime/backends/gloo/gloo_device.hpp"
#include "worker_runtime/backends/gloo/gloo_messages.hpp"
#include "worker_runtime/backends/gloo/gloo_store.hpp"
#include "worker_runtime/backends/gloo/no_pipe_signal.hpp"
#include "worker_runtime/backends/module/module_entry.hpp"
#include "worker_runtime/collectives/divide.hpp"
#include "worker_runtime/collectives/reduce_kernels.hpp"
#include <ddprun/peer_failed.hpp>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/scatter.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

using Bytes = std::vector<std::uint8_t>;

void combine_two(collectives::Combine combine, void* out, const void* a, const void* b,
                 std::size_t elements) {
  const std::array<const void*, 2> sources = {a, b};
  combine(sources.data(), sources.size(), &out, 1, elements);
}

/// Used for collectives that only move data, for which Gloo needs only the element size.
template <typename Options>
void set_output(Options& options, Buffer buffer) {
  options.setOutput(static_cast<std::uint8_t*>(buffer.data), buffer.bytes());
}

template <typename Options>
void set_input(Options& options, Buffer buffer) {
  options.setInput(static_cast<std::uint8_t*>(buffer.data), buffer.bytes());
}

/// Used for collectives that combine elements; Gloo needs the element type.
template <typename Options>
void set_elements(Options& options, Buffer input, Buffer output) {
  const auto set = [&]<typename T>(T*) {
    options.setInput(static_cast<T*>(input.data), input.elements);
    options.setOutput(static_cast<T*>(output.data), output.elements);
  };
  switch (size_of(input.type)) {
    case 8:
      return set(static_cast<std::uint64_t*>(nullptr));
    case 4:
      return set(static_cast<std::uint32_t*>(nullptr));
    case 2:
      return set(static_cast<std::uint16_t*>(nullptr));
    default:
      return set(static_cast<std::uint8_t*>(nullptr));
  }
}

/// Returns a buffer of the same size in `bytes`.
Buffer in(Bytes& bytes, Buffer buffer) {
  bytes.resize(buffer.bytes());
  return {bytes.data(), buffer.elements, buffer.type};
}

void copy(Buffer from, Buffer to) {
  if (from.bytes() > 0 && from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
}

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(const module::Member& member)
      : rank_(member.rank),
        size_(member.size),
        group_(member.group),
        endpoint_{.host = member.store_host, .port = member.store_port} {}

  void enter(Deadline deadline) override {
    const NoPipeSignal spared;
    if (size_ == 1) {
      gloo::rendezvous::HashStore nobody_else;
      return connect(nobody_else, "127.0.0.1", deadline);
    }
    auto store = ddprun::Store::connect(endpoint_, deadline);
    BackendAgreement agreement(store, {.group = group_, .backend = "gloo", .rank = rank_},
                               deadline);
    GlooStore keys(store, "ddprun/group/" + group_ + "/gloo", deadline);
    connect(keys, keys.own_address(), deadline);
    agreement.end(store, deadline);
    // The next group of this name must not find the keys of this one.
    keys.erase_own_keys();
  }

  void leave() noexcept override {
    const NoPipeSignal spared;
    try {
      if (messages_) messages_->flush(Deadline::after(kLeaveTimeout));
    } catch (const std::exception&) {
      // The receiver has ended, or reports its failure itself.
    }
  }

  void run(const Operation& operation, Deadline deadline) override {
    const NoPipeSignal spared;
    try {
      carry_out(operation, deadline);
    } catch (const gloo::Exception& error) {
      const std::lock_guard lock(mutex_);
      if (!abort_reason_.empty()) throw Error(Errc::closed, abort_reason_);
      // Gloo does not report the rank; the group adds the call.
      if (is_of_peer(error)) throw PeerFailed(-1, error.what());
      raise(error, describe_in(group_, operation, static_cast<std::size_t>(size_)));
    }
  }

  // Any memory is suitable, and the runtime determines late ranks.
  std::shared_ptr<void> allocate(std::size_t) override { return nullptr; }
  std::string stall_reason() const override { return {}; }

  void abort(const std::string& reason) noexcept override {
    const NoPipeSignal spared;
    const std::lock_guard lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason;
    if (!context_) return;
    // The first call wakes the other ranks, the second one this rank.
    context_->closeConnections();
    device_->end_waits();
  }

 private:
  // Time for ranks that are still running to receive sent data.
  static constexpr auto kLeaveTimeout = std::chrono::seconds(5);

  void connect(gloo::rendezvous::Store& store, const std::string& address, Deadline deadline) {
    auto device = std::make_shared<GlooDevice>(address);
    std::shared_ptr<gloo::transport::Device> any_device = device;
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    try {
      context->setTimeout(gloo_timeout(deadline));
#ifdef GLOO_SHARED_STORE
      // Gloo keeps the pointer, but only uses the store while it connects.
      const std::shared_ptr<gloo::rendezvous::Store> not_owned(std::shared_ptr<void>(), &store);
      context->connectFullMesh(not_owned, any_device);
#else
      context->connectFullMesh(store, any_device);
#endif
      gloo::BarrierOptions all_are_there(context);
      gloo::barrier(all_are_there);
    } catch (const gloo::Exception& error) {
      raise(error, "process group \"" + group_ + "\": meeting the other ranks");
    }
    const std::lock_guard lock(mutex_);
    device_ = std::move(device);
    context_ = std::move(context);
    messages_.emplace(*context_, rank_);
  }

  static bool is_timeout(const gloo::Exception& error) {
    return std::string_view(error.what()).find("imed out") != std::string_view::npos;
  }

  static bool is_of_peer(const gloo::Exception& error) {
    return !is_timeout(error) && dynamic_cast<const gloo::IoException*>(&error) != nullptr;
  }

  [[noreturn]] static void raise(const gloo::Exception& error, const std::string& what) {
    const std::string text = what + ": " + error.what();
    if (is_timeout(error)) throw Error(Errc::timeout, text);
    if (is_of_peer(error)) throw PeerFailed(-1, text);
    throw Error(Errc::internal, text);
  }

  void carry_out(const Operation& operation, Deadline deadline) {
    if (operation.collective == Collective::send)
      return messages_->send(operation.input, operation.peer, operation.tag, deadline);
    if (operation.collective == Collective::recv)
      return messages_->receive(operation.output, operation.peer, operation.tag, deadline);
    if (operation.collective == Collective::barrier) {
      gloo::BarrierOptions options(context_);
      prepare(options, operation, deadline);
      return gloo::barrier(options);
    }
    if (operation.input.elements + operation.output.elements == 0) return;
    switch (operation.collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::reduce:
        return combine(operation, deadline);
      default:
        return move(operation, deadline);
    }
  }

  template <typename Options>
  void prepare(Options& options, const Operation& operation, Deadline deadline) const {
    options.setTag(static_cast<std::uint32_t>(operation.sequence));
    options.setTimeout(gloo_timeout(deadline));
  }

  // Collectives that combine.

  void combine(const Operation& operation, Deadline deadline) {
    const auto op = operation.op == ReduceOp::average ? ReduceOp::sum : operation.op;
    const auto function = collectives::combine_function(operation.input.type, op);
    if (operation.op == ReduceOp::average &&
        (operation.input.type == DataType::int32 || operation.input.type == DataType::uint8)) {
      throw Error(Errc::usage, std::string("average of ") + to_string(operation.input.type) +
                                   ": Gloo adds in the type itself, where the sum may not fit; "
                                   "use the host backend or another type");
    }
    const auto reduce = [function](void* out, const void* a, const void* b, std::size_t elements) {
      combine_two(function, out, a, b, elements);
    };
    switch (operation.collective) {
      case Collective::all_reduce:
        return all_reduce(operation, operation.output, reduce, deadline);
      case Collective::reduce:
        return reduce_to_root(operation, reduce, deadline);
      default:
        return reduce_scatter(operation, reduce, deadline);
    }
  }

  template <typename Reduce>
  void all_reduce(const Operation& operation, Buffer output, const Reduce& reduce,
                  Deadline deadline) {
    gloo::AllreduceOptions options(context_);
    prepare(options, operation, deadline);
    set_elements(options, operation.input, output);
    options.setReduceFunction(reduce);
    gloo::allreduce(options);
    if (operation.op == ReduceOp::average) collectives::divide(output, size_);
  }

  /// Gloo's newer interface has no reduce_scatter; PyTorch also uses an all_reduce.
  template <typename Reduce>
  void reduce_scatter(const Operation& operation, const Reduce& reduce, Deadline deadline) {
    const Buffer whole = in(scratch_, operation.input);
    all_reduce(operation, whole, reduce, deadline);
    const std::size_t elements = operation.output.elements;
    copy(whole.slice(static_cast<std::size_t>(rank_) * elements, elements), operation.output);
  }

  /// Gloo needs a result buffer on all ranks; the input must not change.
  template <typename Reduce>
  void reduce_to_root(const Operation& operation, const Reduce& reduce, Deadline deadline) {
    const Buffer result = in(scratch_, operation.input);
    gloo::ReduceOptions options(context_);
    prepare(options, operation, deadline);
    set_elements(options, operation.input, result);
    options.setRoot(operation.peer);
    options.setReduceFunction(reduce);
    gloo::reduce(options);
    if (rank_ != operation.peer) return;
    if (operation.op == ReduceOp::average) collectives::divide(result, size_);
    copy(result, operation.output);
  }

  // Collectives that only move data. If a rank's part is within the whole buffer, Gloo needs a
  // separate copy of it.

  void move(const Operation& operation, Deadline deadline) {
    switch (operation.collective) {
      case Collective::broadcast:
        return broadcast(operation, deadline);
      case Collective::all_gather:
      case Collective::new_group: {
        gloo::AllgatherOptions options(context_);
        prepare(options, operation, deadline);
        set_input(options, apart(operation.input));
        set_output(options, operation.output);
        return gloo::allgather(options);
      }
      case Collective::gather: {
        gloo::GatherOptions options(context_);
        prepare(options, operation, deadline);
        options.setRoot(operation.peer);
        set_input(options, apart(operation.input));
        if (rank_ == operation.peer) set_output(options, operation.output);
        return gloo::gather(options);
      }
      case Collective::scatter:
        return scatter(operation, deadline);
      default: {
        gloo::AlltoallOptions options(context_);
        prepare(options, operation, deadline);
        set_input(options, apart(operation.input));
        set_output(options, operation.output);
        return gloo::alltoall(options);
      }
    }
  }

  Buffer apart(Buffer buffer) {
    const Buffer other = in(scratch_, buffer);
    copy(buffer, other);
    return other;
  }

  void broadcast(const Operation& operation, Deadline deadline) {
    gloo::BroadcastOptions options(context_);
    prepare(options, operation, deadline);
    options.setRoot(operation.peer);
    set_output(options, operation.output);
    gloo::broadcast(options);
  }

  void scatter(const Operation& operation, Deadline deadline) {
    gloo::ScatterOptions options(context_);
    prepare(options, operation, deadline);
    options.setRoot(operation.peer);
    set_output(options, operation.output);
    if (rank_ == operation.peer) {
      const Buffer input = apart(operation.input);
      std::vector<std::uint8_t*> parts;
      parts.reserve(static_cast<std::size_t>(size_));
      for (int rank = 0; rank < size_; ++rank) {
        parts.push_back(static_cast<std::uint8_t*>(input.data) +
                        static_cast<std::size_t>(rank) * operation.output.bytes());
      }
      options.setInputs(parts, operation.output.bytes());
    }
    gloo::scatter(options);
  }

  const int rank_;
  const int size_;
  const std::string group_;
  const StoreEndpoint endpoint_;
  std::shared_ptr<GlooDevice> device_;
  std::shared_ptr<gloo::Context> context_;
  std::optional<GlooMessages> messages_;
  Bytes scratch_;
  std::mutex mutex_;  ///< guards the reason, and device and context against a concurrent abort
  std::string abort_reason_;
};

}  // namespace

std::unique_ptr<Backend> module::create(const Member& member) {
  if (member.size > 1 && member.store_port == 0) {
    throw Error(Errc::usage,
                "several workers need a store, and MASTER_PORT is not set (start them "
                "with ddprun, or run a store and set MASTER_ADDR and MASTER_PORT)");
  }
  return std::make_unique<GlooBackend>(member);
}

}  // namespace ddprun
