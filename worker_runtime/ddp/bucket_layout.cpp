#include "worker_runtime/ddp/bucket_layout.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

BucketLayout::BucketLayout(const TensorWork& work, BucketPlan plan,
                           std::vector<std::shared_ptr<void>> memory,
                           std::span<const Parameter> parameters, ReduceOp op, std::size_t number)
    : work_(work),
      plan_(std::move(plan)),
      number_(number),
      memory_(std::move(memory)),
      parts_(plan_.buckets.size()),
      gradients_(parameters.size()),
      buckets_(parameters.size()) {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const BucketPlan::Bucket& bucket = plan_.buckets[b];
    const Buffer all = {memory_[b].get(), bucket.elements, bucket.type, work.device()};
    // Dense, as in PyTorch: a bucket contains only the elements of its parameters.
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

void BucketLayout::zero(void* stream) {
  for (const auto& view : views_) work_.zero(view.gradients, stream);
}

void BucketLayout::copy_from(const BucketLayout& other, void* stream) {
  std::vector<TensorCopy> copies;
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    copies.push_back({other.gradient(i), gradients_[i]});
  work_.copy(copies, stream);
}

}  // namespace ddprun
