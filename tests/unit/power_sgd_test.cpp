// PowerSGD against the same algorithm over all ranks at once, in double precision and plain loops.
#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"
#include "worker_runtime/ddp/hooks/low_rank.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <random>

namespace power_sgd_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;
using Matrix = std::vector<std::vector<double>>;  // rows

constexpr std::size_t kRows = 12;
constexpr std::size_t kColumns = 20;
constexpr std::size_t kBias = 5;
constexpr int kRanks = 3;

/// Rank r's gradient of the matrix in a step.
Matrix gradient_of(int rank, int step) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  Matrix matrix(kRows, std::vector<double>(kColumns));
  for (auto& row : matrix) {
    for (auto& element : row) element = static_cast<double>(random() % 2001) / 1000 - 1;
  }
  return matrix;
}

Matrix zeros(std::size_t rows, std::size_t columns) {
  return Matrix(rows, std::vector<double>(columns));
}

void orthonormalise(Matrix& rows) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    for (std::size_t other = 0; other < k; ++other) {
      double product = 0;
      for (std::size_t i = 0; i < rows[k].size(); ++i) product += rows[k][i] * rows[other][i];
      for (std::size_t i = 0; i < rows[k].size(); ++i) rows[k][i] -= product * rows[other][i];
    }
    double square = 0;
    for (const double element : rows[k]) square += element * element;
    for (double& element : rows[k]) element /= std::sqrt(square);
  }
}

/// All ranks' view of the algorithm.
struct Reference {
  PowerSgdOptions options;
  Matrix right = zeros(options.rank, kColumns);
  std::vector<Matrix> errors = std::vector<Matrix>(kRanks, zeros(kRows, kColumns));

  explicit Reference(const PowerSgdOptions& given) : options(given) { draw(0); }

  void draw(std::uint64_t step) {
    std::vector<float> numbers(options.rank * kColumns);
    ddprun::fill_random({numbers.data(), 1, numbers.size()},
                        ddprun::first_matrices_seed(options.seed, 0, step));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      right[i / kColumns][i % kColumns] = static_cast<double>(numbers[i]);
    }
  }

  /// The average that all ranks have after this step.
  Matrix step(int step) {
    if (!options.warm_start) draw(static_cast<std::uint64_t>(step));
    std::vector<Matrix> inputs;
    for (int rank = 0; rank < kRanks; ++rank) {
      inputs.push_back(gradient_of(rank, step));
      if (!options.error_feedback) continue;
      for (std::size_t i = 0; i < kRows; ++i) {
        for (std::size_t j = 0; j < kColumns; ++j) {
          inputs.back()[i][j] += errors[static_cast<std::size_t>(rank)][i][j];
        }
      }
    }
    orthonormalise(right);
    Matrix left = zeros(options.rank, kRows);
    const auto for_each = [&](auto&& add) {
      for (const auto& input : inputs) {
        for (std::size_t k = 0; k < options.rank; ++k) {
          for (std::size_t i = 0; i < kRows; ++i) {
            for (std::size_t j = 0; j < kColumns; ++j) add(k, i, j, input[i][j] / kRanks);
          }
        }
      }
    };
    for_each([&](std::size_t k, std::size_t i, std::size_t j, double element) {
      left[k][i] += element * right[k][j];
    });
    orthonormalise(left);
    right = zeros(options.rank, kColumns);
    for_each([&](std::size_t k, std::size_t i, std::size_t j, double element) {
      right[k][j] += element * left[k][i];
    });
    Matrix result = zeros(kRows, kColumns);
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kColumns; ++j) {
        for (std::size_t k = 0; k < options.rank; ++k) result[i][j] += left[k][i] * right[k][j];
        for (std::size_t r = 0; r < kRanks; ++r) errors[r][i][j] = inputs[r][i][j] - result[i][j];
      }
    }
    return result;
  }
};

/// A matrix and a bias in one bucket.
struct MatrixModel {
  std::vector<float> weight = std::vector<float>(kRows * kColumns);
  std::vector<float> bias = std::vector<float>(kBias);
  std::vector<ddprun::Parameter> parameters = {
      {"weight", as_buffer(weight.data(), weight.size()), {kRows, kColumns}},
      {"bias", as_buffer(bias.data(), bias.size())}};
};

void step_of_rank(GradientReducer& reducer, int rank, int step) {
  reducer.begin();
  const Matrix own = gradient_of(rank, step);
  for (std::size_t i = 0; i < kRows * kColumns; ++i) {
    gradient(reducer, 0)[i] = static_cast<float>(own[i / kColumns][i % kColumns]);
  }
  for (auto& element : gradient(reducer, 1)) element = static_cast<float>(rank);
  reducer.ready(1);
  reducer.ready(0);
  reducer.finish();
}

}  // namespace

TEST_SUITE("PowerSGD") {
  TEST_CASE("each step gives what the algorithm gives in double precision") {
    for (const auto& options :
         {PowerSgdOptions{.rank = 1, .start_step = 0}, PowerSgdOptions{.rank = 3, .start_step = 0},
          PowerSgdOptions{.rank = 2, .start_step = 0, .error_feedback = false},
          PowerSgdOptions{.rank = 2, .start_step = 0, .warm_start = false, .seed = 9}}) {
      for (const auto op : {ReduceOp::average, ReduceOp::sum}) {
        auto hook_options = options;
        hook_options.min_compression_rate = 1;
        const auto errors = errors_of_ranks(kRanks, [&](ProcessGroup& group) {
          MatrixModel model;
          Reference reference(hook_options);
          ddprun::ReducerOptions reducer_options;
          reducer_options.op = op;
          reducer_options.hook = power_sgd(group, hook_options);
          GradientReducer reducer(group, model.parameters, {}, reducer_options);
          const float factor = op == ReduceOp::sum ? kRanks : 1;
          for (int step = 0; step < 6; ++step) {
            step_of_rank(reducer, group.rank(), step);
            const Matrix expected = reference.step(step);
            for (std::size_t i = 0; i < kRows * kColumns; ++i) {
              const double wanted = factor * expected[i / kColumns][i % kColumns];
              // 20 products of float32, divided by lengths, over some steps of feedback.
              require(std::abs(gradient(reducer, 0)[i] - wanted) < 2e-4,
                      "step " + std::to_string(step) + " element " + std::to_string(i));
            }
            require(gradient(reducer, 1)[4] == factor, "bias");
          }
        });
        CHECK(errors == Errors(kRanks));
      }
    }
  }

  TEST_CASE("the first steps are exact, and a bucket is sent in fewer bytes from then on") {
    std::mutex mutex;
    std::vector<std::size_t> bytes;
    ddprun::GroupOptions group_options;
    group_options.on_collective = [&](const ddprun::CollectiveRecord& record) {
      const std::lock_guard lock(mutex);
      if (record.name == "all_reduce") bytes.push_back(record.bytes);
    };
    const auto errors = errors_of_ranks(
        2,
        [](ProcessGroup& group) {
          MatrixModel model;
          ddprun::ReducerOptions options;
          options.hook = power_sgd(group, {.rank = 2, .start_step = 2});
          GradientReducer reducer(group, model.parameters, {}, options);
          for (int step = 0; step < 3; ++step) step_of_rank(reducer, group.rank(), step);
        },
        group_options);
    CHECK(errors == Errors(2));
    std::sort(bytes.begin(), bytes.end());
    const std::size_t bias = 4 * kBias;
    const std::size_t left = 4 * 2 * kRows;
    const std::size_t right = 4 * 2 * kColumns;
    const std::size_t all = 4 * (kRows * kColumns + kBias);
    CHECK(bytes ==
          std::vector<std::size_t>{bias, bias, left, left, right, right, all, all, all, all});
  }

  TEST_CASE("gradients that would hardly shrink travel as they are") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      MatrixModel model;
      ddprun::ReducerOptions options;
      options.op = ReduceOp::sum;
      // (12 + 20) * 4 * 2 is more than 12 * 20.
      options.hook = power_sgd(group, {.rank = 4, .start_step = 0});
      GradientReducer reducer(group, model.parameters, {}, options);
      step_of_rank(reducer, group.rank(), 1);
      const float sum =
          static_cast<float>(gradient_of(0, 1)[3][4]) + static_cast<float>(gradient_of(1, 1)[3][4]);
      require(gradient(reducer, 0)[3 * kColumns + 4] == sum, "exact");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("all ranks end with the same bits, and the error fed back makes up for what is lost") {
    // The same gradient in every step: the sum over steps of what was applied nears that of what
    // was meant.
    std::vector<std::vector<float>> ends(kRanks);
    const auto errors = errors_of_ranks(kRanks, [&](ProcessGroup& group) {
      MatrixModel model;
      ddprun::ReducerOptions options;
      options.hook = power_sgd(group, {.rank = 1, .start_step = 0});
      GradientReducer reducer(group, model.parameters, {}, options);
      std::vector<double> applied(kRows * kColumns);
      constexpr int kSteps = 400;
      for (int step = 0; step < kSteps; ++step) {
        step_of_rank(reducer, group.rank(), 0);
        for (std::size_t i = 0; i < applied.size(); ++i) applied[i] += gradient(reducer, 0)[i];
      }
      const auto last = gradient(reducer, 0);
      ends[static_cast<std::size_t>(group.rank())].assign(last.begin(), last.end());
      for (std::size_t i = 0; i < applied.size(); ++i) {
        double mean = 0;
        for (int r = 0; r < kRanks; ++r) mean += gradient_of(r, 0)[i / kColumns][i % kColumns];
        require(std::abs(applied[i] / kSteps - mean / kRanks) < 0.05, "mean over steps");
      }
    });
    CHECK(errors == Errors(kRanks));
    CHECK(ends[0] == ends[1]);
    CHECK(ends[0] == ends[2]);
  }

  TEST_CASE("a zero gradient stays zero, and rebuilt buckets begin anew") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      MatrixModel model;
      ddprun::ReducerOptions options;
      options.rebuild_buckets = true;
      options.hook = power_sgd(group, {.rank = 2, .start_step = 0});
      GradientReducer reducer(group, model.parameters, {}, options);
      for (int step = 0; step < 3; ++step) {
        reducer.zero_gradients();
        reducer.begin();
        reducer.ready(0);
        reducer.ready(1);
        reducer.finish();
        require(reducer.layout() == (step == 0 ? 0 : 1), "layout");
        for (const float element : gradient(reducer, 0)) require(element == 0, "zero");
      }
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("rows that depend on others become zero, whatever their length") {
    std::vector<float> rows = {3e-18F, 4e-18F, 0, 6, 8, 0, 0, 0, 5};
    ddprun::orthonormalise_rows({rows.data(), 3, 3});
    const std::vector<float> expected = {0.6F, 0.8F, 0, 0, 0, 0, 0, 0, 1};
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK(std::abs(rows[i] - expected[i]) < 1e-6);
  }

  TEST_CASE("what gives up its second all-reduce leaves none behind in its memory") {
    std::promise<void> gave_up;
    const auto errors = errors_of_ranks(2, [&](ProcessGroup& group) {
      MatrixModel model;
      ddprun::ReducerOptions options;
      options.hook = power_sgd(group, {.rank = 1, .start_step = 0});
      const auto complete = options.hook->complete;
      options.hook->complete = [&](const ddprun::BucketView& bucket, ddprun::Deadline deadline) {
        if (group.rank() == 1) gave_up.get_future().wait();
        const auto soon = ddprun::Deadline::after(std::chrono::milliseconds(10));
        try {
          complete(bucket, group.rank() == 0 ? soon : deadline);
        } catch (const ddprun::Error&) {
          if (group.rank() == 0) gave_up.set_value();
          throw;
        }
      };
      GradientReducer reducer(group, model.parameters, {}, options);
      step_of_rank(reducer, group.rank(), 0);
    });
    CHECK(errors[0].find("had not ended") != std::string::npos);
    CHECK(errors[1].find("PowerSGD gave up") != std::string::npos);
  }

  TEST_CASE("a rank of nothing is refused") {
    auto groups = ProcessGroup::create_in_process(1);
    CHECK(what_of([&] { (void)power_sgd(groups[0], {.rank = 0}); }) ==
          "bucket hook: PowerSGD of rank 0, must be 1 or more");
  }
}

}  // namespace power_sgd_test
