// The points that a tracking server has not accepted yet, oldest first. Pure; the caller locks.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace trainer {

/// One value of a metric.
struct Point {
  std::string name;
  double value = 0;
  std::int64_t step = 0;
  std::int64_t milliseconds = 0;  ///< since 1970, when it was logged

  bool operator==(const Point&) const = default;
};

/// The last step of each metric that a server has.
using LastSteps = std::map<std::string, std::int64_t>;

class Backlog {
 public:
  enum class Kind {
    step,   ///< of one step among many: dropped first
    epoch,  ///< of an epoch or a test
  };

  /// At 1 point per step of 0.1 s, an outage of half an hour; some 1.5 MB of memory.
  static constexpr std::size_t kStepPointsMax = 20'000;
  /// Epochs are few. Bounded like everything.
  static constexpr std::size_t kEpochPointsMax = 10'000;

  /// Points to be sent at once. They stay in the backlog until they are removed.
  struct Batch {
    std::vector<Point> points;
    std::uint64_t steps_end = 0;  ///< number of the first one behind the batch
    std::uint64_t epochs_end = 0;
  };

  /// Drops the oldest point of the kind if there are too many. Ignores a value that is not finite
  /// and a point that the server has.
  void push(Kind kind, Point point);

  Batch first(std::size_t points_max) const;

  /// Those of the batch that have not been dropped meanwhile.
  void remove(const Batch& batch);

  /// Ignores from now on, and removes, points of these metrics up to these steps: a resumed
  /// training repeats steps that the server has, with the same results.
  void skip(LastSteps known);

  std::size_t size() const { return steps_.points.size() + epochs_.points.size(); }
  bool has_dropped() const { return steps_.dropped || epochs_.dropped; }

  /// All points, for a checkpoint.
  nlohmann::json to_json() const;

  /// Appends what to_json() returned; ignores anything else.
  void add(const nlohmann::json& points);

 private:
  struct Queue {
    std::deque<Point> points;
    std::uint64_t first = 0;  ///< number of the first one, counted over all that were pushed
    bool dropped = false;
    void pop();
  };
  Queue& queue_of(Kind kind) { return kind == Kind::step ? steps_ : epochs_; }
  bool is_known(const Point& point) const;

  Queue steps_;
  Queue epochs_;
  LastSteps known_;
};

}  // namespace trainer
