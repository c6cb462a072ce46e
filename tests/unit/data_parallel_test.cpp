#include "tests/support/failure_text.hpp"
#include <ddprun/data_parallel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace data_parallel_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// y = a x + b, squared error.
struct Line {
  std::vector<double> a{0};
  std::vector<double> b{0};

  std::vector<Parameter> parameters() {
    return {{.name = "a", .values = as_buffer(a.data(), 1)},
            {.name = "b", .values = as_buffer(b.data(), 1)}};
  }
  double operator()(double x) const { return a[0] * x + b[0]; }
};

struct Points {
  std::vector<double> x;
  std::vector<double> y;
};

/// Integers, so that sums are exact in any order.
Points make_points(int count) {
  Points points;
  for (int i = 0; i < count; ++i) {
    points.x.push_back(i % 7 - 3);
    points.y.push_back(2 * (i % 7 - 3) + 5);
  }
  return points;
}

/// The mean over all points is the mean of this over replicas, for any distribution of rows.
void backward(const Line& line, GradientReducer& reducer, const Points& points, const Rows& rows,
              int replicas) {
  auto& of_a = *static_cast<double*>(reducer.gradient(0).data);
  auto& of_b = *static_cast<double*>(reducer.gradient(1).data);
  const auto all = static_cast<double>(points.x.size());
  for (std::size_t i = rows.first; i < rows.first + rows.count; ++i) {
    const double error = 2 * (line(points.x[i]) - points.y[i]) * replicas / all;
    of_a += error * points.x[i];
    of_b += error;
  }
  reducer.ready(1);
  reducer.ready(0);
}

/// Learns from 64 points in 50 steps.
Line learn(int replicas) {
  const Points points = make_points(64);
  Line line;
  DataParallel<Line> parallel(line, replicas);
  for (int step = 0; step < 50; ++step) {
    parallel.step([&](const Line& replica_line, GradientReducer& reducer, const Replica& replica) {
      backward(replica_line, reducer, points, replica.rows(points.x.size()), replica.count);
    });
    line.a[0] -= 0.125 * *static_cast<const double*>(parallel.gradient(0).data);
    line.b[0] -= 0.125 * *static_cast<const double*>(parallel.gradient(1).data);
  }
  return line;
}

}  // namespace

TEST_SUITE("data parallel") {
  TEST_CASE("data parallel: a batch is split evenly by rows without gaps") {
    const auto group = ProcessGroup::create_in_process(1).front();
    for (int count = 1; count <= 5; ++count) {
      for (std::size_t rows = 0; rows <= 12; ++rows) {
        std::size_t next = 0;
        for (int index = 0; index < count; ++index) {
          const Rows own = Replica{index, count, group}.rows(rows);
          CHECK(own.first == next);
          CHECK(own.count - rows / static_cast<std::size_t>(count) <= 1);
          next += own.count;
        }
        CHECK(next == rows);
      }
    }
  }

  TEST_CASE("data parallel: any number of replicas trains like one model") {
    const Line alone = learn(1);
    CHECK(alone.a[0] == doctest::Approx(2));
    CHECK(alone.b[0] == doctest::Approx(5));
    for (const int replicas : {2, 3, 4}) {
      const Line line = learn(replicas);
      CHECK(line.a[0] == doctest::Approx(alone.a[0]).epsilon(1e-12));
      CHECK(line.b[0] == doctest::Approx(alone.b[0]).epsilon(1e-12));
    }
  }

  TEST_CASE("data parallel: self-updating replicas train like a copied model") {
    const Points points = make_points(64);
    const Line copied = learn(3);
    Line line;
    DataParallel<Line> parallel(line, 3);
    std::vector<Line> ends(3);
    const auto learn_by = [&](const Line& own, GradientReducer& reducer, const Replica& replica) {
      backward(own, reducer, points, replica.rows(points.x.size()), replica.count);
    };
    const auto update = [&](Line& own, const GradientReducer& reducer, const Replica& replica) {
      own.a[0] -= 0.125 * *static_cast<const double*>(reducer.gradient(0).data);
      own.b[0] -= 0.125 * *static_cast<const double*>(reducer.gradient(1).data);
      ends[static_cast<std::size_t>(replica.index)] = own;
    };
    for (int step = 0; step < 50; ++step) parallel.step(learn_by, update);
    for (const Line& end : ends) {
      CHECK(end.a == copied.a);
      CHECK(end.b == copied.b);
    }
    CHECK(line.a == copied.a);

    line.a[0] = line.b[0] = 0;
    parallel.refresh();
    for (int step = 0; step < 50; ++step) parallel.step(learn_by, update);
    for (const Line& end : ends) CHECK(end.a == copied.a);
  }

  TEST_CASE("data parallel: gradients start at zero or accumulate on request") {
    Line line;
    DataParallel<Line> parallel(line, 2);
    const auto add_one = [](const Line&, GradientReducer& reducer, const Replica&) {
      for (const std::size_t i : {0, 1}) {
        *static_cast<double*>(reducer.gradient(i).data) += 1;
        reducer.ready(i);
      }
    };
    const auto found = [&] { return *static_cast<const double*>(parallel.gradient(1).data); };
    for (int step = 0; step < 2; ++step) {
      parallel.step(add_one);
      CHECK(found() == 1);
    }
    parallel.set_zero_gradients(false);
    parallel.step(add_one);
    CHECK(found() == 2);
  }

  TEST_CASE("data parallel: replicas use the current parameters on their own threads") {
    Line line;
    DataParallel<Line> parallel(line, 3);
    line.a[0] = 4;
    line.b[0] = 1;
    const std::vector<double> x{1, 2, 3, 4, 5, 6, 7};
    std::vector<double> y(x.size());
    std::vector<std::thread::id> threads(3);
    parallel.apply([&](const Line& replica_line, const Replica& replica) {
      threads[static_cast<std::size_t>(replica.index)] = std::this_thread::get_id();
      const Rows rows = replica.rows(x.size());
      for (std::size_t i = rows.first; i < rows.first + rows.count; ++i) y[i] = replica_line(x[i]);
    });
    CHECK(y == std::vector<double>{5, 9, 13, 17, 21, 25, 29});
    CHECK(std::set(threads.begin(), threads.end()).size() == 3);
  }

  TEST_CASE("data parallel: an exception in a replica ends the others and is rethrown") {
    ReplicaThreads threads(3);
    const auto message = describe_failure([&] {
      threads.apply([](Replica& replica) {
        if (replica.index == 2) throw Error(Errc::system, "no such row");
        replica.group.barrier().wait();
      });
    });
    CHECK(message == "system: no such row");
    CHECK(describe_failure([&] { threads.apply([](Replica&) {}); }) ==
          "closed: DataParallel: an earlier call has failed, so replicas differ");
  }

  TEST_CASE("data parallel: invalid numbers of replicas are rejected") {
    for (const int count : {0, -3, 1025}) {
      CHECK(describe_failure([&] { ReplicaThreads threads(count); }) ==
            "usage: DataParallel: " + std::to_string(count) + " replicas (1 to 1024 are possible)");
    }
  }
}

}  // namespace data_parallel_test
