#include <ddprun/gradient_reducer.hpp>

#include <doctest/doctest.h>

#include <limits>

namespace bucket_plan_test {

using ddprun::BucketPlan;
using ddprun::DataType;
using ddprun::Parameter;
using ddprun::plan_buckets;
using Indices = std::vector<std::size_t>;

namespace {

std::vector<Parameter> parameters_of(const std::vector<std::size_t>& elements,
                                     DataType type = DataType::float32) {
  std::vector<Parameter> parameters;
  parameters.reserve(elements.size());
  for (const auto count : elements) {
    parameters.push_back({"p" + std::to_string(parameters.size()), {nullptr, count, type}});
  }
  return parameters;
}

/// Limits in elements of float32.
BucketPlan plan(const std::vector<std::size_t>& elements, std::size_t first, std::size_t cap) {
  return plan_buckets(parameters_of(elements),
                      {.first_bucket_bytes = first * 4, .bucket_bytes_cap = cap * 4});
}

std::vector<Indices> indices(const BucketPlan& plan) {
  std::vector<Indices> lists;
  for (const auto& bucket : plan.buckets) lists.push_back(bucket.parameters);
  return lists;
}

std::vector<std::size_t> sizes(const BucketPlan& plan) {
  std::vector<std::size_t> elements;
  for (const auto& bucket : plan.buckets) elements.push_back(bucket.elements);
  return elements;
}

}  // namespace

TEST_SUITE("bucket plan") {
  TEST_CASE("bucket plan: buckets are filled from the last parameter backwards") {
    CHECK(indices(plan({1, 1, 1, 1}, 2, 2)) == std::vector<Indices>{{3, 2}, {1, 0}});
  }

  TEST_CASE("bucket plan: a bucket is closed when it reaches its limit") {
    struct Case {
      std::vector<std::size_t> elements;
      std::size_t first;
      std::size_t cap;
      std::vector<std::size_t> buckets;
    };
    const std::vector<Case> cases = {
        {{}, 4, 8, {}},
        {{5}, 4, 8, {5}},
        {{3}, 4, 8, {3}},
        {{4, 4}, 4, 8, {4, 4}},      // exactly reached
        {{4, 3, 1}, 4, 8, {4, 4}},   // exactly reached by two
        {{4, 9, 3}, 4, 8, {12, 4}},  // 3 is below the limit, so 9 joins it: overshoot
        {{1, 7, 1, 100}, 4, 8, {100, 8, 1}},
        {{2, 2, 2, 2, 2, 2, 2}, 4, 6, {4, 6, 4}},
        {{1, 1, 1}, 0, 0, {1, 1, 1}},  // no limit is always reached
        {{1, 1, 1}, 1, 1, {1, 1, 1}},
        {{5, 5, 5}, 100, 100, {15}},
        {{5, 5, 5}, 100, 5, {5, 5, 5}},  // the first bucket is not larger than the others
        {{0, 5, 0}, 5, 5, {5, 0}},       // nothing to send, but still a gradient
    };
    for (const auto& test : cases) {
      CAPTURE(test.elements.size());
      CAPTURE(test.first);
      CAPTURE(test.cap);
      CHECK(sizes(plan(test.elements, test.first, test.cap)) == test.buckets);
    }
  }

  TEST_CASE("bucket plan: the toy model of PyTorch's tutorials fits in one bucket") {
    // Linear(10, 10), Linear(10, 5): weight and bias each.
    const auto buckets = plan_buckets(parameters_of({100, 10, 50, 5}), {});
    CHECK(indices(buckets) == std::vector<Indices>{{3, 2, 1, 0}});
    CHECK(sizes(buckets) == std::vector<std::size_t>{165});
  }

  TEST_CASE("bucket plan: buckets of a model with 8.4 million parameters equal PyTorch's") {
    std::vector<std::size_t> elements = {10 * 1024, 1024};
    for (int layer = 0; layer < 8; ++layer) {
      elements.push_back(1024 * 1024);
      elements.push_back(1024);
    }
    elements.push_back(1024 * 5);
    elements.push_back(5);
    CHECK(sizes(plan_buckets(parameters_of(elements), {})) ==
          std::vector<std::size_t>{1054725, 7347200, 11264});
    CHECK(sizes(plan_buckets(parameters_of(elements), {.bucket_bytes_cap = 8 << 20})) ==
          std::vector<std::size_t>{1054725, 2099200, 2099200, 2099200, 1060864});
  }

  TEST_CASE("bucket plan: limits count bytes for every type") {
    const auto parameters = parameters_of({4, 4, 4, 4}, DataType::float64);
    CHECK(sizes(plan_buckets(parameters, {.first_bucket_bytes = 32, .bucket_bytes_cap = 64})) ==
          std::vector<std::size_t>{4, 8, 4});
    CHECK(sizes(plan_buckets(parameters_of({40, 40}, DataType::bfloat16),
                             {.first_bucket_bytes = 80, .bucket_bytes_cap = 80})) ==
          std::vector<std::size_t>{40, 40});
  }

  TEST_CASE("bucket plan: each data type has separate buckets and limits") {
    auto parameters = parameters_of({8, 8, 8, 8, 8, 8});
    parameters[4].values.type = DataType::float64;
    parameters[1].values.type = DataType::float64;
    const auto buckets =
        plan_buckets(parameters, {.first_bucket_bytes = 32, .bucket_bytes_cap = 64});
    CHECK(indices(buckets) == std::vector<Indices>{{5}, {4}, {3, 2}, {1}, {0}});
    CHECK(buckets.buckets[1].type == DataType::float64);
    CHECK(buckets.buckets[2].type == DataType::float32);

    const auto one_each = plan_buckets(parameters, {});
    CHECK(indices(one_each) == std::vector<Indices>{{4, 1}, {5, 3, 2, 0}});
  }

  TEST_CASE("bucket plan: each parameter is in exactly one bucket") {
    for (const std::size_t cap : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{64},
                                  std::numeric_limits<std::size_t>::max() / 4}) {
      const auto buckets = plan({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9}, 4, cap);
      std::vector<int> seen(15);
      for (const auto& bucket : buckets.buckets) {
        for (const auto index : bucket.parameters) ++seen.at(index);
      }
      CHECK(seen == std::vector<int>(15, 1));
    }
  }
}

}  // namespace bucket_plan_test
