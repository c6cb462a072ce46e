#include "worker_runtime/ddp/torch_sequence.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddprun {

namespace {

/// Returns the sizes and strides of all parameters in order, each parameter's sizes first.
std::vector<std::int64_t> sizes_and_strides(std::span<const Parameter> parameters) {
  std::vector<std::int64_t> all;
  for (const auto& parameter : parameters) {
    const auto& shape = parameter.shape;
    for (const auto size : shape) all.push_back(static_cast<std::int64_t>(size));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t stride = 1;
      for (std::size_t inner = d + 1; inner < shape.size(); ++inner) {
        stride *= static_cast<std::int64_t>(shape[inner]);
      }
      all.push_back(stride);
    }
  }
  return all;
}

std::vector<std::int32_t> as_numbers(const std::vector<std::size_t>& indices) {
  return {indices.begin(), indices.end()};
}

}  // namespace

void verify_as_torch(ProcessGroup& group, std::span<const Parameter> parameters) {
  const auto own = static_cast<std::int64_t>(parameters.size());
  std::int64_t mine = own;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()));
  group.all_gather(as_buffer(&mine, 1), as_buffer(counts.data(), counts.size())).wait();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] == own) continue;
    throw Error(Errc::usage, "GradientReducer: rank " + std::to_string(group.rank()) + " has " +
                                 std::to_string(own) + " parameters, rank " + std::to_string(rank) +
                                 " has " + std::to_string(counts[rank]));
  }
  const auto expected = sizes_and_strides(parameters);
  auto all = expected;
  if (!all.empty()) group.broadcast(as_buffer(all.data(), all.size()), 0).wait();
  if (all == expected) return;
  throw Error(Errc::usage, "GradientReducer: rank " + std::to_string(group.rank()) +
                               "'s parameters have other dimensions than rank 0's");
}

BucketPlan broadcast_plan_as_torch(ProcessGroup& group, std::span<const Parameter> parameters,
                                   const BucketPlan& plan) {
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> sizes;
  for (const auto& bucket : plan.buckets) {
    const auto numbers = as_numbers(bucket.parameters);
    indices.insert(indices.end(), numbers.begin(), numbers.end());
    sizes.push_back(static_cast<std::int32_t>(numbers.size()));
  }
  indices.push_back(static_cast<std::int32_t>(sizes.size()));
  group.broadcast(as_buffer(indices.data(), indices.size()), 0).wait();
  sizes.resize(static_cast<std::size_t>(indices.back()));
  group.broadcast(as_buffer(sizes.data(), sizes.size()), 0).wait();
  BucketPlan result;
  auto next = indices.begin();
  for (const auto size : sizes) {
    BucketPlan::Bucket bucket;
    for (std::int32_t i = 0; i < size; ++i) {
      bucket.parameters.push_back(static_cast<std::size_t>(*next++));
      bucket.elements += parameters[bucket.parameters.back()].values.elements;
    }
    // All parameters of a bucket have the same type, which every rank knows.
    const auto first = std::find_if(
        plan.buckets.begin(), plan.buckets.end(), [&](const BucketPlan::Bucket& candidate) {
          const auto& list = candidate.parameters;
          return std::find(list.begin(), list.end(), bucket.parameters.front()) != list.end();
        });
    bucket.type = first->type;
    result.buckets.push_back(std::move(bucket));
  }
  return result;
}

}  // namespace ddprun
