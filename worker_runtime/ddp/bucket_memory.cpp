#include "worker_runtime/ddp/bucket_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ddprun {

namespace {

using Memory = std::vector<std::shared_ptr<void>>;

/// Allocates all buckets; returns an empty list if one allocation fails.
template <typename Allocate>
Memory allocate_each(const BucketPlan& plan, const Allocate& allocate) {
  Memory memory(plan.buckets.size());
  for (std::size_t b = 0; b < memory.size(); ++b) {
    const std::size_t bytes = plan.buckets[b].elements * size_of(plan.buckets[b].type);
    if (bytes == 0) continue;
    memory[b] = allocate(bytes);
    if (!memory[b]) return {};
  }
  return memory;
}

/// Runs the group's first collective on the device, which creates the communicator that memory is
/// registered with.
void connect_on_device(ProcessGroup& group, const TensorWork& work) {
  const auto memory = work.allocate(sizeof(std::int32_t));
  group.all_reduce({memory.get(), 1, DataType::int32, work.device()}).wait();
}

/// Returns true if `is_true_here` on all ranks. NCCL does not check this, and hangs if only some
/// ranks have registered their memory.
bool is_true_on_all_ranks(ProcessGroup& group, bool is_true_here) {
  std::int32_t is_so = is_true_here ? 1 : 0;
  group.all_reduce(as_buffer(&is_so, 1), ReduceOp::min).wait();
  return is_so != 0;
}

}  // namespace

Memory allocate_buckets(ProcessGroup group, const TensorWork& work, const BucketPlan& plan,
                        CollectiveSequence sequence) {
  const bool has_elements = std::any_of(plan.buckets.begin(), plan.buckets.end(),
                                        [](const auto& bucket) { return bucket.elements > 0; });
  // PyTorch's sequence has no collective for this agreement.
  if (work.is_on_device() && group.size() > 1 && has_elements &&
      sequence != CollectiveSequence::pytorch) {
    connect_on_device(group, work);
    Memory registered =
        allocate_each(plan, [&](std::size_t bytes) { return work.allocate_registered(bytes); });
    if (is_true_on_all_ranks(group, !registered.empty())) return registered;
  }
  return allocate_each(plan, [&](std::size_t bytes) { return work.allocate(bytes); });
}

}  // namespace ddprun
