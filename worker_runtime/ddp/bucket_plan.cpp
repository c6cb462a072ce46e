#include "worker_runtime/ddp/gradient_type.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

/// Current bucket for parameters of one type and device.
struct OpenBucket {
  DataType type;
  Device device;
  std::size_t bytes_limit;
  BucketPlan::Bucket bucket;
};

OpenBucket& open_bucket_for(DataType type, Device device, std::vector<OpenBucket>& open,
                            const ReducerOptions& options) {
  const auto found = std::find_if(open.begin(), open.end(), [&](const OpenBucket& candidate) {
    return candidate.type == type && candidate.device == device;
  });
  if (found != open.end()) return *found;
  const std::size_t limit = std::min(options.first_bucket_bytes, options.bucket_bytes_cap);
  return open.emplace_back(OpenBucket{type, device, limit, {}});
}

std::vector<std::size_t> reverse_definition(std::size_t parameters) {
  std::vector<std::size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

}  // namespace

BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options,
                        std::span<const std::size_t> order) {
  const auto by_definition = reverse_definition(parameters.size());
  if (order.empty()) order = by_definition;
  std::vector<std::size_t> positions(parameters.size());
  BucketPlan plan;
  std::vector<OpenBucket> open;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const std::size_t index = order[position];
    positions[index] = position;
    const Buffer& values = parameters[index].values;
    const DataType type = gradient_type(values.type, options);
    OpenBucket& current = open_bucket_for(type, values.device, open, options);
    current.bucket.type = type;
    current.bucket.parameters.push_back(index);
    current.bucket.elements += values.elements;
    if (current.bucket.elements * size_of(type) < current.bytes_limit) continue;
    plan.buckets.push_back(std::exchange(current.bucket, {}));
    current.bytes_limit = options.bucket_bytes_cap;
  }
  for (OpenBucket& rest : open) {
    if (!rest.bucket.parameters.empty()) plan.buckets.push_back(std::move(rest.bucket));
  }
  // A bucket is complete with the last of its parameters. In the order of these, no bucket waits
  // for one that is complete later.
  std::sort(plan.buckets.begin(), plan.buckets.end(), [&](const auto& left, const auto& right) {
    return positions[left.parameters.back()] < positions[right.parameters.back()];
  });
  return plan;
}

}  // namespace ddprun
