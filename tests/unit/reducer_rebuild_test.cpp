#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

namespace reducer_rebuild_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;
using Indices = std::vector<std::size_t>;

/// A step in which the gradients become ready in this order.
void step_in_order(GradientReducer& reducer, int rank, int step, const Indices& order) {
  reducer.zero_gradients();
  reducer.begin_forward();
  reducer.begin();
  for (const auto p : order) {
    add_gradient(reducer, rank, step, p);
    reducer.ready(p);
  }
  reducer.finish();
}

Indices order_of(const GradientReducer& reducer) {
  Indices order;
  for (const auto& bucket : reducer.plan().buckets) {
    order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  return order;
}

ddprun::ReducerOptions rebuilding() {
  auto options = kSmallBuckets;
  options.op = ReduceOp::sum;
  options.rebuild_buckets = true;
  return options;
}

}  // namespace

TEST_SUITE("reducer that rebuilds its buckets") {
  TEST_CASE("bucket rebuild: all ranks adopt rank 0's ready order after the first step") {
    const Indices observed = {2, 0, 4, 1, 3};
    const auto errors = errors_of_ranks(3, [&](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, rebuilding());
      Indices own = observed;
      if (group.rank() > 0) std::reverse(own.begin(), own.end());
      for (int step = 0; step < 4; ++step) {
        require(reducer.layout() == (step < 2 ? 0 : 1), "layout before step");
        step_in_order(reducer, group.rank(), step, own);
        require_gradients(reducer, 3, step);
        require(order_of(reducer) == (step == 0 ? Indices{4, 3, 2, 1, 0} : observed), "order");
      }
    });
    CHECK(errors == Errors(3));
  }

  TEST_CASE("bucket rebuild: buckets in the same order keep their memory") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, rebuilding());
      const void* memory = reducer.gradient(0).data;
      for (int step = 0; step < 3; ++step) {
        step_in_order(reducer, group.rank(), step, {4, 3, 2, 1, 0});
      }
      require(reducer.layout() == 0 && reducer.gradient(0).data == memory, "layout");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("bucket rebuild: gradients keep their values when buckets are rebuilt") {
    for (const int ranks : {1, 2}) {
      const auto errors = errors_of_ranks(ranks, [ranks](ProcessGroup& group) {
        Model model;
        GradientReducer reducer(group, model.parameters, {}, rebuilding());
        step_in_order(reducer, group.rank(), 3, {0, 1, 2, 3, 4});
        reducer.begin_forward();
        require(reducer.layout() == 1, "rebuilt");
        require_gradients(reducer, ranks, 3);
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) reducer.ready(p);
        reducer.finish();
      });
      CHECK(errors == Errors(errors.size()));
    }
  }

  TEST_CASE("bucket rebuild: buckets are rebuilt after the first synchronised step") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, rebuilding());
      for (const bool synchronise : {false, false, true, false}) {
        reducer.begin(synchronise);
        for (std::size_t p = 0; p < 5; ++p) reducer.ready(p);
        require(reducer.layout() == 0 || !synchronise, "layout");
        reducer.finish();
      }
      require(reducer.layout() == 1, "layout after");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("bucket rebuild: a plan for any order has a small first bucket for each type") {
    std::vector<ddprun::Parameter> parameters;
    for (const std::size_t elements : {8u, 8u, 8u, 8u}) {
      parameters.push_back({"p", {nullptr, elements, DataType::float32}});
    }
    parameters[1].values.type = DataType::float64;
    const auto plan = plan_buckets(parameters, {.first_bucket_bytes = 32, .bucket_bytes_cap = 64},
                                   Indices{1, 3, 0, 2});
    REQUIRE(plan.buckets.size() == 3);
    CHECK(plan.buckets[0].parameters == Indices{1});
    CHECK(plan.buckets[1].parameters == Indices{3});
    CHECK(plan.buckets[2].parameters == Indices{0, 2});
  }

  TEST_CASE("bucket rebuild: rebuild_buckets is rejected with find_unused_parameters") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    auto options = rebuilding();
    options.find_unused_parameters = true;
    CHECK(what_of([&] { GradientReducer(groups[0], model.parameters, {}, options); }) ==
          "GradientReducer: rebuild_buckets and find_unused_parameters exclude each other: the "
          "order may change");
  }
}

}  // namespace reducer_rebuild_test
