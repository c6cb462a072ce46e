#include "worker_runtime/ddp/bucket_layout.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun {

BucketLayout::BucketLayout(ProcessGroup& group, BucketPlan plan,
                           std::span<const Parameter> parameters, ReduceOp op, std::size_t number)
    : plan_(std::move(plan)),
      number_(number),
      memory_(plan_.buckets.size()),
      parts_(plan_.buckets.size()),
      gradients_(parameters.size()),
      buckets_(parameters.size()) {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const BucketPlan::Bucket& bucket = plan_.buckets[b];
    Buffer all = {nullptr, bucket.elements, bucket.type};
    if (all.elements > 0) memory_[b] = group.allocate(all.bytes());
    all.data = memory_[b].get();
    // Densely, as PyTorch does: a bucket has exactly its parameters' elements.
    std::size_t first = 0;
    for (const std::size_t index : bucket.parameters) {
      const std::size_t elements = parameters[index].values.elements;
      buckets_[index] = b;
      gradients_[index] = all.slice(first, elements);
      parts_[b].push_back({index, parameters[index].shape, gradients_[index]});
      first += elements;
    }
    views_.push_back(
        {.index = b, .gradients = all, .parts = parts_[b], .op = op, .layout = number});
  }
  // Buckets without elements are not reduced.
  const auto last = std::find_if(views_.rbegin(), views_.rend(), [](const BucketView& view) {
    return view.gradients.elements > 0;
  });
  if (last != views_.rend()) last->is_last = true;
}

void BucketLayout::zero() {
  for (const auto& view : views_) {
    if (view.gradients.elements > 0) std::memset(view.gradients.data, 0, view.gradients.bytes());
  }
}

void BucketLayout::copy_from(const BucketLayout& other) {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const Buffer& from = other.gradient(i);
    if (from.elements > 0) std::memcpy(gradients_[i].data, from.data, from.bytes());
  }
}

}  // namespace ddprun
