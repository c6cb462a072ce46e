#include <ddprun/gradient_reducer.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

/// The bucket that parameters of one type and device go into at the moment.
struct OpenBucket {
  DataType type;
  Device device;
  std::size_t bytes_limit;
  BucketPlan::Bucket bucket;
};

OpenBucket& open_bucket_for(const Buffer& values, std::vector<OpenBucket>& open,
                            const ReducerOptions& options) {
  const auto found = std::find_if(open.begin(), open.end(), [&](const OpenBucket& candidate) {
    return candidate.type == values.type && candidate.device == values.device;
  });
  if (found != open.end()) return *found;
  const std::size_t limit = std::min(options.first_bucket_bytes, options.bucket_bytes_cap);
  return open.emplace_back(OpenBucket{values.type, values.device, limit, {}});
}

}  // namespace

BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options) {
  BucketPlan plan;
  std::vector<OpenBucket> open;
  for (std::size_t index = parameters.size(); index-- > 0;) {
    const Buffer& values = parameters[index].values;
    OpenBucket& current = open_bucket_for(values, open, options);
    current.bucket.type = values.type;
    current.bucket.parameters.push_back(index);
    current.bucket.elements += values.elements;
    if (current.bucket.elements * size_of(values.type) < current.bytes_limit) continue;
    plan.buckets.push_back(std::exchange(current.bucket, {}));
    current.bytes_limit = options.bucket_bytes_cap;
  }
  for (OpenBucket& rest : open) {
    if (!rest.bucket.parameters.empty()) plan.buckets.push_back(std::move(rest.bucket));
  }
  // A bucket is complete with its first-defined parameter. Launching in the order of these makes no
  // bucket wait for one that is complete later.
  std::sort(plan.buckets.begin(), plan.buckets.end(), [](const auto& left, const auto& right) {
    return left.parameters.back() > right.parameters.back();
  });
  return plan;
}

}  // namespace ddprun
