#include "worker_runtime/ddp/drift_check.hpp"

#include "worker_runtime/ddp/checksum.hpp"
#include "worker_runtime/ddp/reducer_checks.hpp"
#include <ddprun/rank_agreement.hpp>

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

/// Returns the checksum of each parameter.
std::vector<std::uint64_t> checksums_of(const TensorWork& tensors,
                                        std::span<const Parameter> parameters) {
  std::vector<std::uint64_t> sums;
  std::vector<std::byte> memory;
  for (const auto& parameter : parameters) {
    const Buffer& values = parameter.values;
    sums.push_back(checksum(tensors.read(values, memory), static_cast<std::uint64_t>(values.type)));
  }
  return sums;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text = {};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

Work DriftCheck::start(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
                       std::span<const Parameter> parameters, std::int64_t step) {
  tensors.await(group.stream(), Deadline::never());
  std::vector<std::uint64_t> sums = {static_cast<std::uint64_t>(step), checksum_of(plan)};
  for (const auto sum : checksums_of(tensors, parameters)) sums.push_back(sum);
  own_ = static_cast<std::int64_t>(checksum(std::as_bytes(std::span(sums)), 0));
  all_.assign(static_cast<std::size_t>(group.size()), 0);
  return group.all_gather(as_buffer(&own_, 1), as_buffer(all_.data(), all_.size()));
}

void DriftCheck::finish(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
                        std::span<const Parameter> parameters, std::int64_t step) const {
  const bool agree = std::all_of(all_.begin(), all_.end(),
                                 [this](std::int64_t other) { return other == all_[0]; });
  if (agree) return;
  std::vector<Fact> list = {{"step", std::to_string(step)},
                            {"bucket layout", hexadecimal(checksum_of(plan))}};
  const auto sums = checksums_of(tensors, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    list.push_back(
        {"the checksum of parameter " + double_quoted(parameters[i].name), hexadecimal(sums[i])});
  }
  require_agreement(group, "GradientReducer: drift in step " + std::to_string(step), list);
  throw Error(Errc::internal, "GradientReducer: the ranks' checksums differed in step " +
                                  std::to_string(step) +
                                  " and do no longer: the parameters were "
                                  "changed within the step");
}

}  // namespace ddprun
