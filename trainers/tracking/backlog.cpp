#include "trainers/tracking/backlog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainer {

namespace {

constexpr const char* kStepsKey = "steps";
constexpr const char* kEpochsKey = "epochs";

nlohmann::json json_of(const std::deque<Point>& points) {
  auto list = nlohmann::json::array();
  for (const Point& point : points) {
    list.push_back({point.name, point.value, point.step, point.milliseconds});
  }
  return list;
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

void Backlog::Queue::pop() {
  points.pop_front();
  ++first;
}

bool Backlog::is_known(const Point& point) const {
  const auto last = known_.find(point.name);
  return last != known_.end() && point.step <= last->second;
}

void Backlog::push(Kind kind, Point point) {
  if (!std::isfinite(point.value) || is_known(point)) return;
  Queue& queue = queue_of(kind);
  if (queue.points.size() == (kind == Kind::step ? kStepPointsMax : kEpochPointsMax)) {
    queue.pop();
    queue.dropped = true;
  }
  queue.points.push_back(std::move(point));
}

Backlog::Batch Backlog::first(std::size_t points_max) const {
  Batch batch;
  const auto take = [&](const Queue& queue) {
    const std::size_t count = std::min(points_max - batch.points.size(), queue.points.size());
    const auto begin = queue.points.begin();
    batch.points.insert(batch.points.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    return queue.first + count;
  };
  batch.epochs_end = take(epochs_);
  batch.steps_end = take(steps_);
  return batch;
}

void Backlog::remove(const Batch& batch) {
  while (epochs_.first < batch.epochs_end) epochs_.pop();
  while (steps_.first < batch.steps_end) steps_.pop();
}

void Backlog::skip(LastSteps known) {
  known_ = std::move(known);
  for (Queue* queue : {&steps_, &epochs_}) {
    std::erase_if(queue->points, [&](const Point& point) { return is_known(point); });
  }
}

nlohmann::json Backlog::to_json() const {
  return {{kStepsKey, json_of(steps_.points)}, {kEpochsKey, json_of(epochs_.points)}};
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
