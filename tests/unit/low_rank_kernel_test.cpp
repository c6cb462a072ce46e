// The kernels of PowerSGD against the same steps on the processor.
#include "tests/support/emulated_kernels.hpp"
#include "tests/support/largest_difference.hpp"
#include "worker_runtime/ddp/hooks/low_rank.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace low_rank_kernel_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

struct Shape {
  std::size_t rows;
  std::size_t columns;
};

/// More and fewer than a chunk of rows, than a block of columns, than lanes.
const std::vector<Shape> kShapes = {{1, 1}, {5, 3}, {37, 300}, {130, 260}, {300, 33}, {128, 256}};
constexpr unsigned kRanks[] = {1, 3, 4, 6};
constexpr float kUnwritten = std::numeric_limits<float>::quiet_NaN();

/// Matrices and all that belongs to them, each in memory of its own.
class Matrices {
 public:
  Matrices(const std::vector<Shape>& shapes, unsigned rank, bool keeps_errors = true) {
    std::mt19937 random(7);
    for (const auto& [rows, columns] : shapes) {
      LowRankMatrix matrix{.rows = rows, .columns = columns};
      matrix.matrix = filled(rows * columns, random);
      matrix.left = filled(rank * rows, random);
      matrix.right = filled(rank * columns, random);
      if (keeps_errors) matrix.errors = filled(rows * columns, random);
      const std::size_t partial = low_rank_partial_elements(matrix, rank);
      matrix.partial = memory_.emplace_back(partial, kUnwritten).data();
      all_.push_back(matrix);
    }
  }

  std::vector<LowRankMatrix>& all() { return all_; }

  /// But for the partial sums, which are the kernels' own.
  std::vector<float> values() const {
    std::vector<float> values;
    for (const auto& part : memory_) {
      if (!part.empty() && std::isnan(part.back())) continue;
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  /// After a step that may have written them.
  void forget_partial_sums() {
    for (auto& part : memory_) {
      for (const auto& matrix : all_) {
        if (part.data() == matrix.partial) part.assign(part.size(), kUnwritten);
      }
    }
  }

 private:
  float* filled(std::size_t elements, std::mt19937& random) {
    auto& part = memory_.emplace_back(elements);
    for (float& element : part) element = static_cast<float>(random() % 2001) / 1000 - 1;
    return part.data();
  }

  std::vector<std::vector<float>> memory_;
  std::vector<LowRankMatrix> all_;
};

void run_emulated(const LowRankOrder& order, Matrices& matrices, bool backwards = false) {
  REQUIRE(run_low_rank_here(order, matrices.all(), backwards) == cudaSuccess);
  matrices.forget_partial_sums();
}

constexpr LowRankStep kSteps[] = {LowRankStep::fill_right,           LowRankStep::project_columns,
                                  LowRankStep::orthonormalise_left,  LowRankStep::project_rows,
                                  LowRankStep::orthonormalise_right, LowRankStep::expand};

}  // namespace

TEST_SUITE("low-rank kernels") {
  TEST_CASE("each step gives what it gives on the processor") {
    for (const unsigned rank : kRanks) {
      for (const LowRankStep step : kSteps) {
        CAPTURE(rank);
        CAPTURE(static_cast<int>(step));
        const LowRankOrder order{.step = step, .rank = rank, .seed = 5, .factor = 3};
        Matrices on_device(kShapes, rank);
        Matrices on_processor(kShapes, rank);
        run_emulated(order, on_device);
        compute_low_rank(order, on_processor.all());
        // Sums of at most 300 products of numbers below 1, in another order.
        CHECK(largest_difference(on_device.values(), on_processor.values()) < 2e-5);
      }
    }
  }

  TEST_CASE("the order in which threads run changes no bit") {
    for (const LowRankStep step : kSteps) {
      CAPTURE(static_cast<int>(step));
      const LowRankOrder order{.step = step, .rank = 6, .seed = 5};
      Matrices forwards(kShapes, 6);
      Matrices backwards(kShapes, 6);
      run_emulated(order, forwards);
      run_emulated(order, backwards, true);
      CHECK(forwards.values() == backwards.values());
    }
  }

  TEST_CASE("there may be more matrices than go along with one launch") {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < 130; ++i) shapes.push_back({1 + i % 40, 1 + i % 7});
    for (const LowRankStep step : {LowRankStep::project_columns, LowRankStep::project_rows}) {
      Matrices on_device(shapes, 2);
      Matrices on_processor(shapes, 2);
      run_emulated({.step = step, .rank = 2}, on_device);
      compute_low_rank({.step = step, .rank = 2}, on_processor.all());
      CHECK(largest_difference(on_device.values(), on_processor.values()) < 1e-5);
    }
  }

  TEST_CASE("errors need not be kept") {
    Matrices matrices({{3, 4}}, 1, false);
    Matrices expected({{3, 4}}, 1, false);
    run_emulated({.step = LowRankStep::expand}, matrices);
    compute_low_rank({.step = LowRankStep::expand}, expected.all());
    CHECK(largest_difference(matrices.values(), expected.values()) < 1e-6);
  }

  TEST_CASE("rows that depend on others become zero, whatever their length") {
    std::vector<float> rows = {3e-18F, 4e-18F, 0, 6, 8, 0, 0, 0, 5};
    Matrices matrices({{1, 3}}, 3);
    matrices.all()[0].right = rows.data();
    run_emulated({.step = LowRankStep::orthonormalise_right, .rank = 3}, matrices);
    const std::vector<float> expected = {0.6F, 0.8F, 0, 0, 0, 0, 0, 0, 1};
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK(std::abs(rows[i] - expected[i]) < 1e-6);
  }

  TEST_CASE("the first matrices are of a normal distribution") {
    Matrices matrices({{1, 20'000}}, 1);
    run_emulated({.step = LowRankStep::fill_right, .seed = 3}, matrices);
    double sum = 0;
    double squares = 0;
    const float* const right = matrices.all()[0].right;
    for (std::size_t i = 0; i < 20'000; ++i) {
      sum += static_cast<double>(right[i]);
      squares += static_cast<double>(right[i]) * static_cast<double>(right[i]);
    }
    CHECK(std::abs(sum / 20'000) < 0.03);  // four standard deviations
    CHECK(std::abs(squares / 20'000 - 1) < 0.04);
  }
}

}  // namespace low_rank_kernel_test
