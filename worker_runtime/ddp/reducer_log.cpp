#include "worker_runtime/ddp/reducer_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace ddprun {

namespace {

enum : std::size_t { kForward, kBackward, kCommunication, kOverlap };

constexpr std::array<const char*, 4> kTimes = {"forward_compute_time", "backward_compute_time",
                                               "backward_comm_time",
                                               "backward_compute_comm_overlap_time"};

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

template <typename List, typename Text>
std::string join(const List& list, Text text) {
  std::string joined;
  for (const auto& item : list) joined += (joined.empty() ? "" : ", ") + text(item);
  return joined;
}

std::string bucket_bytes(const BucketPlan& plan) {
  return join(plan.buckets, [](const BucketPlan::Bucket& bucket) {
    return std::to_string(bucket.elements * size_of(bucket.type));
  });
}

std::string indices(const std::vector<std::size_t>& list) {
  return join(list, [](std::size_t index) { return std::to_string(index); });
}

}  // namespace

std::vector<double> StepTimeline::exposed_by_bucket() const {
  std::vector<double> exposed;
  double waited_until = finish_called_seconds;
  for (const auto& bucket : buckets) {
    exposed.push_back(std::max(bucket.done_seconds - waited_until, 0.0));
    waited_until = std::max(waited_until, bucket.done_seconds);
  }
  return exposed;
}

double StepTimeline::communication_seconds() const {
  double end = 0;
  for (const auto& bucket : buckets) end = std::max(end, bucket.done_seconds);
  return buckets.empty() ? 0 : end - buckets.front().launched_seconds;
}

double StepTimeline::overlap_seconds() const {
  if (buckets.empty()) return 0;
  return std::max(finish_called_seconds - buckets.front().launched_seconds, 0.0);
}

ReducerLog::ReducerLog(const ProcessGroup& group, std::span<const Parameter> parameters,
                       const ReducerOptions& options, const BucketPlan& first_plan) {
  std::int64_t bytes = 0;
  bool is_view = true;
  std::set<std::string> types;
  for (const auto& parameter : parameters) {
    bytes += static_cast<std::int64_t>(parameter.values.bytes());
    types.insert(to_string(parameter.values.type));
    if (parameter.gradient.data != nullptr) is_view = false;
  }
  constant_.ints = {{"rank", group.rank()},
                    {"world_size", group.size()},
                    {"num_parameter_tensors", static_cast<std::int64_t>(parameters.size())},
                    {"total_parameter_size_bytes", bytes},
                    {"bucket_cap_bytes", static_cast<std::int64_t>(options.bucket_bytes_cap)},
                    {"broadcast_buffers", options.broadcast_buffers ? 1 : 0},
                    {"find_unused_parameters", options.find_unused_parameters ? 1 : 0},
                    {"static_graph", options.static_graph ? 1 : 0},
                    {"gradient_as_bucket_view", is_view ? 1 : 0},
                    {"join_uneven_inputs", options.uneven_inputs == UnevenInputs::none ? 0 : 1}};
  const auto first = std::min(options.first_bucket_bytes, options.bucket_bytes_cap);
  constant_.strings = {{"backend_name", group.backend()},
                       {"dtypes", join(types, [](const std::string& type) { return type; })},
                       {"initial_bucket_size_limits",
                        std::to_string(first) + ", " + std::to_string(options.bucket_bytes_cap)},
                       {"bucket_sizes", bucket_bytes(first_plan)},
                       {"comm_hook", options.hook ? options.hook->name : ""}};
  for (const char* name : kTimes) times_.push_back({name});
}

void ReducerLog::add(const StepTimeline& timeline) {
  ++steps_;
  last_ = timeline;
  times_[kForward].last = timeline.forward_seconds;
  times_[kBackward].last = timeline.finish_called_seconds;
  times_[kCommunication].last = timeline.communication_seconds();
  times_[kOverlap].last = timeline.overlap_seconds();
  for (auto& time : times_) time.total += time.last;
}

DdpLoggingData ReducerLog::data(const BucketLayout& layout, std::span<const std::size_t> order,
                                std::int64_t unused_bytes) const {
  DdpLoggingData data = constant_;
  data.ints["iteration"] = steps_;
  data.ints["unused_parameter_size"] = unused_bytes;
  data.ints["has_rebuilt_buckets"] = layout.number() > 0 ? 1 : 0;
  for (const auto& time : times_) {
    data.ints[time.name] = nanoseconds(time.last);
    data.ints[std::string("avg_") + time.name] =
        steps_ == 0 ? 0 : nanoseconds(time.total / static_cast<double>(steps_));
  }
  data.ints["exposed_comm_time"] = nanoseconds(last_.exposed_seconds());
  data.strings["prev_iteration_grad_ready_order_indices"] = indices({order.begin(), order.end()});
  if (layout.number() == 0) return data;
  data.strings["rebuilt_bucket_sizes"] = bucket_bytes(layout.plan());
  std::string lists;
  for (const auto& bucket : layout.plan().buckets) {
    lists += (lists.empty() ? "" : "; ") + indices(bucket.parameters);
  }
  data.strings["rebuilt_per_bucket_param_indices"] = lists;
  return data;
}

}  // namespace ddprun
