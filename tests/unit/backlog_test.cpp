#include "trainers/tracking/backlog.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <vector>

namespace backlog_test {

using trainer::Backlog;
using trainer::Point;
using Kind = Backlog::Kind;

namespace {

Point point(std::int64_t step, const char* name = "loss") {
  return {.name = name, .value = 0.5, .step = step, .milliseconds = 1000 + step};
}

std::vector<std::int64_t> steps_of(const Backlog& backlog) {
  std::vector<std::int64_t> steps;
  for (const Point& one : backlog.first(backlog.size()).points) steps.push_back(one.step);
  return steps;
}

}  // namespace

TEST_SUITE("backlog of a tracking server") {
  TEST_CASE("backlog: epoch points precede step points and all are kept until removed") {
    Backlog backlog;
    for (const int step : {1, 2, 3}) backlog.push(Kind::step, point(step));
    backlog.push(Kind::epoch, point(10, "test"));
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{10, 1, 2, 3});
    const auto batch = backlog.first(3);
    CHECK(batch.points == std::vector<Point>{point(10, "test"), point(1), point(2)});
    CHECK(backlog.size() == 4);
    backlog.push(Kind::step, point(4));
    backlog.remove(batch);
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{3, 4});
  }

  TEST_CASE("backlog: a full backlog drops the oldest step points and keeps epoch points") {
    Backlog backlog;
    backlog.push(Kind::epoch, point(0));
    const auto limit = static_cast<std::int64_t>(Backlog::kStepPointsMax);
    for (std::int64_t step = 1; step <= limit; ++step) backlog.push(Kind::step, point(step));
    CHECK_FALSE(backlog.has_dropped());
    backlog.push(Kind::step, point(limit + 1));
    CHECK(backlog.has_dropped());
    CHECK(backlog.size() == Backlog::kStepPointsMax + 1);
    CHECK(backlog.first(2).points == std::vector<Point>{point(0), point(2)});
  }

  TEST_CASE("backlog: removing a batch keeps newer points even if older ones were dropped") {
    Backlog backlog;
    const auto limit = static_cast<std::int64_t>(Backlog::kStepPointsMax);
    for (std::int64_t step = 1; step <= limit; ++step) backlog.push(Kind::step, point(step));
    const auto batch = backlog.first(2);
    for (std::int64_t step = 1; step <= 3; ++step) backlog.push(Kind::step, point(limit + step));
    backlog.remove(batch);
    CHECK(backlog.first(1).points == std::vector<Point>{point(4)});
  }

  TEST_CASE("backlog: points up to the step known to the server are skipped for each metric") {
    Backlog backlog;
    for (const int step : {1, 2}) backlog.push(Kind::step, point(step));
    backlog.push(Kind::epoch, point(2, "test"));
    backlog.skip({{"loss", 1}, {"test", 2}});
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{2});
    backlog.push(Kind::epoch, point(2, "test"));
    backlog.push(Kind::epoch, point(4, "test"));
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{4, 2});
  }

  TEST_CASE("backlog: all points of a rejected metric are discarded and counted") {
    Backlog backlog;
    for (const int step : {1, 2}) backlog.push(Kind::step, point(step, "bad"));
    backlog.push(Kind::step, point(3));
    backlog.push(Kind::epoch, point(4, "bad"));
    CHECK(backlog.refuse("bad") == 3);
    backlog.push(Kind::epoch, point(5, "bad"));
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{3});
    CHECK(backlog.refused_count() == 4);
  }

  TEST_CASE("backlog: removing a batch keeps later points even if earlier ones were skipped") {
    Backlog backlog;
    for (const int step : {1, 2, 3, 4}) backlog.push(Kind::step, point(step));
    const auto batch = backlog.first(2);
    backlog.skip({{"loss", 1}});
    backlog.remove(batch);
    CHECK(steps_of(backlog) == std::vector<std::int64_t>{3, 4});
  }

  TEST_CASE("backlog: points with non-finite values are discarded") {
    Backlog backlog;
    Point bad = point(1);
    for (const double value :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      bad.value = value;
      backlog.push(Kind::step, bad);
    }
    CHECK(backlog.size() == 0);
  }

  TEST_CASE("backlog: points are restored from a checkpoint and malformed points are ignored") {
    Backlog backlog;
    backlog.push(Kind::step, point(7));
    backlog.push(Kind::epoch, point(8, "test"));
    Backlog restored;
    restored.add(nlohmann::json::parse(backlog.to_json().dump()));
    CHECK(restored.first(9).points == backlog.first(9).points);
    for (const char* foreign : {"null", "[]", "7", "{}", R"({"steps": 3})",
                                R"({"steps": [1, [], ["a"], ["a", "b", 1, 2], ["a", 1, 1.5, 2]]})",
                                R"({"epochs": [{"a": 1}]})"}) {
      Backlog empty;
      empty.add(nlohmann::json::parse(foreign));
      CHECK_MESSAGE(empty.size() == 0, foreign);
    }
  }
}

}  // namespace backlog_test
