#include "trainers/tracking/backlog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainer {

namespace {

constexpr const char* kStepsKey = "steps";
constexpr const char* kEpochsKey = "epochs";

nlohmann::json json_of(const Point& point) {
  return {point.name, point.value, point.step, point.milliseconds};
}

/// From json_of(); false if it is something else.
bool read_point(const nlohmann::json& json, Point& point) {
  const bool is_point = json.is_array() && json.size() == 4 && json[0].is_string() &&
                        json[1].is_number() && json[2].is_number_integer() &&
                        json[3].is_number_integer();
  if (is_point) point = {json[0], json[1], json[2], json[3]};
  return is_point;
}

}  // namespace

bool Backlog::is_known(const Point& point) const {
  const auto last = known_.find(point.name);
  return last != known_.end() && point.step <= last->second;
}

void Backlog::push(Kind kind, Point point) {
  if (!std::isfinite(point.value) || is_known(point)) return;
  if (refused_.contains(point.name)) {
    ++refused_count_;
    return;
  }
  Queue& queue = queue_of(kind);
  if (queue.points.size() == (kind == Kind::step ? kStepPointsMax : kEpochPointsMax)) {
    queue.points.pop_front();
    queue.dropped = true;
  }
  queue.points.push_back({queue.next_number++, std::move(point)});
}

Backlog::Batch Backlog::first(std::size_t points_max) const {
  Batch batch;
  const auto take = [&](const Queue& queue) {
    std::uint64_t end = 0;
    for (const auto& [number, point] : queue.points) {
      if (batch.points.size() == points_max) break;
      batch.points.push_back(point);
      end = number + 1;
    }
    return end;
  };
  batch.epochs_end = take(epochs_);
  batch.steps_end = take(steps_);
  return batch;
}

void Backlog::remove(const Batch& batch) {
  const auto remove_until = [](Queue& queue, std::uint64_t end) {
    while (!queue.points.empty() && queue.points.front().number < end) queue.points.pop_front();
  };
  remove_until(epochs_, batch.epochs_end);
  remove_until(steps_, batch.steps_end);
}

void Backlog::skip(LastSteps known) {
  known_ = std::move(known);
  for (Queue* queue : {&steps_, &epochs_}) {
    std::erase_if(queue->points, [&](const Numbered& one) { return is_known(one.point); });
  }
}

std::size_t Backlog::refuse(const std::string& metric) {
  refused_.insert(metric);
  std::size_t count = 0;
  for (Queue* queue : {&steps_, &epochs_}) {
    count +=
        std::erase_if(queue->points, [&](const Numbered& one) { return one.point.name == metric; });
  }
  refused_count_ += count;
  return count;
}

nlohmann::json Backlog::to_json() const {
  const auto list_of = [](const Queue& queue) {
    auto list = nlohmann::json::array();
    for (const Numbered& one : queue.points) list.push_back(json_of(one.point));
    return list;
  };
  return {{kStepsKey, list_of(steps_)}, {kEpochsKey, list_of(epochs_)}};
}

void Backlog::add(const nlohmann::json& points) {
  for (const Kind kind : {Kind::step, Kind::epoch}) {
    const auto list = points.find(kind == Kind::step ? kStepsKey : kEpochsKey);
    if (list == points.end() || !list->is_array()) continue;
    for (const auto& one : *list) {
      Point point;
      if (read_point(one, point)) push(kind, std::move(point));
    }
  }
}

}  // namespace trainer
