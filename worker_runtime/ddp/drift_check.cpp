#include "worker_runtime/ddp/drift_check.hpp"

#include "worker_runtime/ddp/checksum.hpp"
#include "worker_runtime/ddp/rank_agreement.hpp"
#include "worker_runtime/ddp/reducer_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace ddprun {

namespace {

std::uint64_t checksum_of(const BucketPlan& plan) {
  std::uint64_t sum = plan.buckets.size();
  for (const auto& bucket : plan.buckets)
    sum = checksum(std::as_bytes(std::span(bucket.parameters)), sum);
  return sum;
}

std::uint64_t checksum_of(const Buffer& values) {
  return checksum({static_cast<const std::byte*>(values.data), values.bytes()},
                  static_cast<std::uint64_t>(values.type));
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text = {};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

Work DriftCheck::start(ProcessGroup& group, const BucketPlan& plan,
                       std::span<const Parameter> parameters, std::int64_t step) {
  std::vector<std::uint64_t> sums = {static_cast<std::uint64_t>(step), checksum_of(plan)};
  for (const auto& parameter : parameters) sums.push_back(checksum_of(parameter.values));
  own_ = static_cast<std::int64_t>(checksum(std::as_bytes(std::span(sums)), 0));
  all_.assign(static_cast<std::size_t>(group.size()), 0);
  return group.all_gather(as_buffer(&own_, 1), as_buffer(all_.data(), all_.size()));
}

void DriftCheck::finish(ProcessGroup& group, const BucketPlan& plan,
                        std::span<const Parameter> parameters, std::int64_t step) const {
  const bool agree = std::all_of(all_.begin(), all_.end(),
                                 [this](std::int64_t other) { return other == all_[0]; });
  if (agree) return;
  std::vector<std::string> list = {"step " + std::to_string(step),
                                   "bucket layout " + hexadecimal(checksum_of(plan))};
  for (const auto& parameter : parameters) {
    list.push_back("parameter " + quoted(parameter.name) + " with checksum " +
                   hexadecimal(checksum_of(parameter.values)));
  }
  require_agreement(group, "gradient reducer: drift in step " + std::to_string(step), list);
  throw Error(Errc::internal, "gradient reducer: the ranks' checksums differed in step " +
                                  std::to_string(step) +
                                  " and do no longer: the parameters were "
                                  "changed within the step");
}

}  // namespace ddprun
