#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

namespace reducer_static_graph_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;

ddprun::ReducerOptions with_static_graph() {
  auto options = kSmallBuckets;
  options.op = ReduceOp::sum;
  options.static_graph = true;
  return options;
}

/// A graph that uses p2 twice and p1 never; p3 on rank 0 only.
void static_backward(GradientReducer& reducer, int rank, int step) {
  reducer.begin();
  for (const std::size_t p : {4u, 2u, 3u, 2u, 0u}) {
    if (p == 3 && rank != 0) continue;
    add_gradient(reducer, rank, step, p);
    reducer.ready(p);
  }
}

void require_static_gradients(const GradientReducer& reducer, int ranks, int step) {
  for (std::size_t p = 0; p < 5; ++p) {
    const auto elements = gradient(reducer, p);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      float expected = sum_of_shares(p == 3 ? 1 : ranks, step, p, i);
      if (p == 2) expected *= 2;
      if (p == 1) expected = 0;
      require(elements[i] == expected,
              "step " + std::to_string(step) + " parameter " + std::to_string(p));
    }
    require(reducer.is_used(p) == (p != 1), "used " + std::to_string(p));
  }
}

}  // namespace

TEST_SUITE("reducer of a static graph") {
  TEST_CASE("static graph: gradients used repeatedly or never are reduced correctly") {
    for (const bool rebuild : {false, true}) {
      for (const int ranks : {1, 2, 3}) {
        const auto errors = errors_of_ranks(ranks, [=](ProcessGroup& group) {
          Model model;
          auto options = with_static_graph();
          options.rebuild_buckets = rebuild;
          GradientReducer reducer(group, model.parameters, {}, options);
          for (int step = 0; step < 6; ++step) {
            reducer.zero_gradients();
            static_backward(reducer, group.rank(), step);
            reducer.finish();
            require_static_gradients(reducer, ranks, step);
          }
          require(reducer.layout() == (rebuild ? 1 : 0), "layout");
        });
        CHECK(errors == Errors(errors.size()));
      }
    }
  }

  TEST_CASE("static graph: buckets are launched during the backward pass since the second step") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, with_static_graph());
      for (int step = 0; step < 2; ++step) {
        static_backward(reducer, 0, step);
        const auto timeline = reducer.finish();
        for (const auto& bucket : timeline.buckets) {
          const bool is_early = bucket.ready_seconds <= timeline.finish_called_seconds;
          require(is_early == (step == 1), "step " + std::to_string(step));
        }
      }
      group.barrier().wait();
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("static graph: gradients of unsynchronised first steps are included") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, with_static_graph());
      for (const bool synchronise : {false, false, true}) {
        reducer.begin(synchronise);
        add_gradient(reducer, group.rank(), 0, 4);
        reducer.ready(4);
        add_gradient(reducer, group.rank(), 0, 4);
        reducer.ready(4);
        reducer.finish();
      }
      require(gradient(reducer, 4)[0] == 6 * sum_of_shares(2, 0, 4, 0), "sum");
      require(reducer.is_used(4) && !reducer.is_used(0), "used");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("static graph: a changed graph is reported with the parameter") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    GradientReducer reducer(groups[0], model.parameters, {}, with_static_graph());
    static_backward(reducer, 0, 0);
    reducer.finish();
    static_backward(reducer, 0, 1);
    CHECK(what_of([&] { reducer.ready(2); }) ==
          "GradientReducer: parameter \"p2\" is ready more often than the 2 times of the first "
          "step: the graph is not static");
    CHECK(what_of([&] { reducer.ready(1); }).find("the 0 times") != std::string::npos);
    CHECK_NOTHROW(reducer.finish());
    reducer.begin();
    for (const std::size_t p : {4u, 2u, 3u, 0u}) reducer.ready(p);
    CHECK(what_of([&] { reducer.finish(); }) ==
          "GradientReducer: no gradient for \"p2\", which the first step used: the graph is not "
          "static");
  }
}

TEST_SUITE("reducer with unused parameters") {
  TEST_CASE("unused parameters: declaring them launches their buckets early and counts as zero") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = kSmallBuckets;
      options.op = ReduceOp::sum;
      options.find_unused_parameters = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      for (int step = 0; step < 3; ++step) {
        reducer.begin();
        for (std::size_t p = 5; p-- > 0;) {
          const bool is_used = p == 4 || (p == 2 && group.rank() == 1);
          if (is_used) {
            for (auto& element : gradient(reducer, p)) element = 1;
            reducer.ready(p);
          } else {
            reducer.unused(p);
          }
        }
        const auto timeline = reducer.finish();
        for (const auto& bucket : timeline.buckets) {
          require(bucket.ready_seconds <= timeline.finish_called_seconds, "launched early");
        }
        const float expected[] = {0, 0, 1, 0, 2};
        for (std::size_t p = 0; p < 5; ++p) {
          require(gradient(reducer, p)[0] == expected[p], "gradient " + std::to_string(p));
          require(reducer.is_used(p) == (expected[p] > 0), "used " + std::to_string(p));
        }
      }
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("unused parameters: contradictory declarations are rejected") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    auto options = kSmallBuckets;
    options.find_unused_parameters = true;
    GradientReducer reducer(groups[0], model.parameters, {}, options);
    CHECK(what_of([&] { reducer.unused(1); }) ==
          "GradientReducer: parameter \"p1\" is unused outside a step, begin() is missing");
    reducer.begin();
    reducer.ready(1);
    CHECK(what_of([&] { reducer.unused(1); }) ==
          "GradientReducer: parameter \"p1\" is unused, but was ready or unused in this step "
          "before");
    reducer.unused(2);
    CHECK(what_of([&] { reducer.ready(2); }) ==
          "GradientReducer: parameter \"p2\" is ready twice in a step");
    reducer.finish();
    GradientReducer strict(groups[0], model.parameters, {}, kSmallBuckets);
    strict.begin();
    CHECK(what_of([&] { strict.unused(0); }) ==
          "GradientReducer: parameter \"p0\" is unused: set find_unused_parameters");
  }
}

}  // namespace reducer_static_graph_test
