// Points that a tracking server has not accepted yet, oldest first. Pure; not thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trainer {

/// One value of a metric.
struct Point {
  std::string name;
  double value = 0;
  std::int64_t step = 0;
  std::int64_t milliseconds = 0;  ///< time of logging, since 1970

  bool operator==(const Point&) const = default;
};

/// Last step of each metric that a server has.
using LastSteps = std::map<std::string, std::int64_t>;

class Backlog {
 public:
  enum class Kind {
    step,   ///< value of a step; limited by kStepPointsMax
    epoch,  ///< value of an epoch or a test; limited by kEpochPointsMax
  };

  /// Half an hour at one point per 0.1 s; about 1.5 MB of memory.
  static constexpr std::size_t kStepPointsMax = 20'000;
  /// More than the epochs and tests of any training.
  static constexpr std::size_t kEpochPointsMax = 10'000;

  /// Points for one request. They stay in the backlog until remove().
  struct Batch {
    std::vector<Point> points;
    std::uint64_t steps_end = 0;   ///< all points of steps with lower numbers are in the batch
    std::uint64_t epochs_end = 0;  ///< likewise for points of epochs
  };

  /// Adds a point; drops the oldest one of the kind if its limit is reached. Ignores values that
  /// are not finite, and points that skip() and refuse() exclude.
  void push(Kind kind, Point point);

  /// Returns the oldest points, those of epochs before those of steps.
  Batch first(std::size_t points_max) const;

  /// Removes the points of the batch that are still in the backlog.
  void remove(const Batch& batch);

  /// Removes points of these metrics up to these steps and ignores later ones: a resumed training
  /// repeats steps that the server has, with the same results.
  void skip(LastSteps known);

  /// Removes the points of a metric that the server refuses, and ignores later ones. Returns the
  /// number of removed points.
  std::size_t refuse(const std::string& metric);
  /// Returns the number of points that refuse() has removed and push() has ignored since.
  std::size_t refused_count() const { return refused_count_; }

  std::size_t size() const { return steps_.points.size() + epochs_.points.size(); }
  bool has_dropped() const { return steps_.dropped || epochs_.dropped; }

  /// Returns all points, for a checkpoint.
  nlohmann::json to_json() const;

  /// Appends the points of a to_json(); ignores malformed ones.
  void add(const nlohmann::json& points);

 private:
  struct Numbered {
    std::uint64_t number;  ///< counted over all points of the queue, from 0
    Point point;
  };
  struct Queue {
    std::deque<Numbered> points;  ///< by ascending number, with gaps where points were removed
    std::uint64_t next_number = 0;
    bool dropped = false;
  };
  Queue& queue_of(Kind kind) { return kind == Kind::step ? steps_ : epochs_; }
  bool is_known(const Point& point) const;

  Queue steps_;
  Queue epochs_;
  LastSteps known_;
  std::set<std::string> refused_;  ///< names of metrics
  std::size_t refused_count_ = 0;
};

}  // namespace trainer
