#include "worker_runtime/collectives/wide_types.hpp"
#include "worker_runtime/ddp/gradient_type.hpp"
#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// Half-type copies of buckets for transfer, in memory of the group.
class HalfBuckets {
 public:
  HalfBuckets(ProcessGroup group, DataType type) : group_(std::move(group)), type_(type) {}

  void start(const BucketView& bucket, Work& work) {
    if (bucket.gradients.type != DataType::float32) {
      work = group_.all_reduce(bucket.gradients, bucket.op);
      return;
    }
    const Buffer wire = wire_of(bucket);
    narrow(bucket.gradients, wire);
    work = group_.all_reduce(wire, bucket.op);
  }

  void complete(const BucketView& bucket) {
    if (bucket.gradients.type != DataType::float32) return;
    const Buffer wire = wire_of(bucket);
    const TensorCopy back{wire, bucket.gradients};
    const TensorWork tensors(group_, wire.device);
    if (tensors.is_on_device()) return tensors.copy({&back, 1}, group_.stream());
    collectives::widen(type_, ReduceOp::sum, wire.data, bucket.gradients.data, wire.elements);
  }

 private:
  struct Wire {
    std::size_t layout = 0;
    std::size_t elements = 0;
    std::shared_ptr<void> memory = nullptr;
  };

  void narrow(const Buffer& gradients, const Buffer& wire) {
    const TensorCopy there{gradients, wire};
    const TensorWork tensors(group_, wire.device);
    if (tensors.is_on_device()) return tensors.copy({&there, 1}, group_.stream());
    // Only rounds: the sum over one rank is the value itself.
    collectives::complete(type_, ReduceOp::sum, 1, gradients, wire.data);
  }

  Buffer wire_of(const BucketView& bucket) {
    Wire& wire = wires_[bucket.index];
    const std::size_t elements = bucket.gradients.elements;
    if (!wire.memory || wire.layout != bucket.layout) {
      wire = {bucket.layout, elements,
              group_.allocate(elements * size_of(type_), bucket.gradients.device)};
    }
    return {wire.memory.get(), elements, type_, bucket.gradients.device};
  }

  ProcessGroup group_;
  DataType type_;
  std::map<std::size_t, Wire> wires_;  ///< by bucket
};

}  // namespace

BucketHook compress(ProcessGroup group, DataType wire_type) {
  if (!is_half(wire_type)) {
    throw Error(Errc::usage, std::string("bucket hook: compression to ") + to_string(wire_type) +
                                 ", must be float16 or bfloat16");
  }
  const auto buckets = std::make_shared<HalfBuckets>(std::move(group), wire_type);
  return {
      .name = std::string("compress ") + to_string(wire_type),
      .start = [buckets](const BucketView& bucket, Work& work) { buckets->start(bucket, work); },
      .complete = [buckets](const BucketView& bucket,
                            Deadline /*deadline*/) { buckets->complete(bucket); }};
}

}  // namespace ddprun
