#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

#include <future>
#include <optional>

namespace gradient_reducer_failure_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Errors = std::vector<std::string>;

}  // namespace

TEST_SUITE("gradient reducer failure") {
  TEST_CASE("reducer failure: different models or options on ranks are reported") {
    using Change = std::function<void(Model&, std::vector<Buffer>&, ReducerOptions&)>;
    std::int32_t integer = 0;
    struct Case {
      Change change;
      std::string text;
    };
    const std::vector<Case> cases = {
        {[](auto& model, auto&, auto&) { model.parameters[2].values.elements = 9; },
         "parameter \"p2\" is float32[9] on ranks 1 and 3, float32[10] on rank 0"},
        {[](auto& model, auto&, auto&) {
           model.parameters[2].shape = {5, 2};
         },
         "parameter \"p2\" is float32[5, 2] on ranks 1 and 3, float32[10] on rank 0"},
        {[](auto& model, auto&, auto&) { model.parameters[4].name = "other"; },
         "ranks 1 and 3 have parameter \"other\" where rank 0 has parameter \"p4\""},
        {[&](auto& model, auto&, auto&) { model.parameters[4].values = as_buffer(&integer, 1); },
         "parameter \"p4\" is int32[1] on ranks 1 and 3, float32[1] on rank 0"},
        {[](auto& model, auto&, auto&) { model.parameters.pop_back(); },
         "ranks 1 and 3 lack parameter \"p4\" of rank 0"},
        {[&](auto&, auto& state, auto&) { state.push_back(as_buffer(&integer, 1)); },
         "ranks 1 and 3 have state buffer 0, which rank 0 lacks"},
        {[](auto&, auto&, auto& options) { options.op = ReduceOp::sum; },
         "option op is sum on ranks 1 and 3, average on rank 0"},
    };
    for (const auto& test : cases) {
      const auto errors = errors_of_ranks(4, [&](ProcessGroup& group) {
        Model model;
        std::vector<Buffer> state;
        auto options = kSmallBuckets;
        if (group.rank() % 2 == 1) test.change(model, state, options);
        const GradientReducer reducer(group, model.parameters, state, options);
      });
      CHECK(errors == Errors(4, "GradientReducer: the ranks differ: " + test.text));
    }
  }

  TEST_CASE("reducer failure: a shape that does not match the number of elements is rejected") {
    auto groups = ProcessGroup::create_in_process(1);
    std::vector<float> values(10);
    const auto construct = [&](std::vector<std::size_t> shape) {
      GradientReducer(groups[0],
                      {{"weight", as_buffer(values.data(), values.size()), std::move(shape)}});
    };
    for (const auto& shape : std::vector<std::vector<std::size_t>>{{}, {10}, {5, 2}, {1, 10, 1}}) {
      CHECK_NOTHROW(construct(shape));
    }
    for (const auto& shape :
         std::vector<std::vector<std::size_t>>{{9}, {5, 3}, {10, 2}, {0}, {3, 3}, {5, 1}}) {
      CHECK_THROWS_AS(construct(shape), Error);
    }
  }

  TEST_CASE("reducer failure: calls in the wrong order are reported with the parameter") {
    auto groups = ProcessGroup::create_in_process(1);
    Model model;
    GradientReducer reducer(groups[0], model.parameters, {}, kSmallBuckets);
    CHECK(what_of([&] { reducer.ready(1); }) ==
          "GradientReducer: parameter \"p1\" is ready outside a step, begin() is missing");
    CHECK(what_of([&] { reducer.finish(); }) ==
          "GradientReducer: finish() outside a step, begin() is missing");
    reducer.begin();
    CHECK(what_of([&] { reducer.begin(); }) ==
          "GradientReducer: begin() within a step, finish() is missing");
    CHECK(what_of([&] { reducer.zero_gradients(); }) ==
          "GradientReducer: zero_gradients() within a step, finish() is missing");
    reducer.ready(1);
    CHECK(what_of([&] { reducer.ready(1); }) ==
          "GradientReducer: parameter \"p1\" is ready twice in a step");
    CHECK(what_of([&] { reducer.ready(5); }) ==
          "GradientReducer: parameter 5 does not exist, there are 5");
    CHECK(what_of([&] { (void)reducer.gradient(5); }) != "");
    CHECK(what_of([&] { (void)reducer.is_used(5); }) != "");
    reducer.ready(3);
    CHECK(what_of([&] { reducer.finish(); }) ==
          "GradientReducer: no gradient for \"p0\", \"p2\", \"p4\": call ready() for each "
          "parameter, or set find_unused_parameters");
    for (const std::size_t p : {0u, 2u, 4u}) reducer.ready(p);
    CHECK_NOTHROW(reducer.finish());
  }

  TEST_CASE("reducer failure: at most ten missing gradients are named") {
    auto groups = ProcessGroup::create_in_process(1);
    float value = 0;
    std::vector<Parameter> parameters(12);
    for (std::size_t p = 0; p < parameters.size(); ++p)
      parameters[p] = {"p" + std::to_string(p), as_buffer(&value, 1)};
    GradientReducer reducer(groups[0], parameters);
    reducer.begin();
    CHECK(what_of([&] { reducer.finish(); }).find("\"p9\" and 2 more: call") != std::string::npos);
  }

  TEST_CASE("reducer failure: invalid arguments are rejected by the constructor") {
    auto groups = ProcessGroup::create_in_process(1);
    const auto make = [&](const Buffer& values, const ReducerOptions& options) {
      return what_of([&] {
        const GradientReducer reducer(groups[0], {{"w", values}}, {}, options);
      });
    };
    float value = 0;
    CHECK(make(as_buffer(&value, 1), {.op = ReduceOp::max}) ==
          "GradientReducer: op max, must be average or sum");
    const Buffer one = as_buffer(&value, 1);
    CHECK(what_of([&] {
            GradientReducer(groups[0], {{"a", one}, {"b", one}, {"a", one}});
          }) == "GradientReducer: parameters 0 and 2 have the name \"a\"; each needs its own");
    CHECK(what_of([&] {
            GradientReducer(groups[0], {{"a", one}, {"", one}});
          }) == "GradientReducer: parameter 1 has no name");
    CHECK(make({nullptr, 1, ddprun::DataType::float32}, {}) ==
          "GradientReducer: parameter \"w\" has no memory");
    CHECK(make({&value, 1, ddprun::DataType::float32, {ddprun::Device::Kind::cuda, 0}}, {}) ==
          "GradientReducer: parameter \"w\" is on CUDA device 0, and the group's backend reaches "
          "none");
  }

  TEST_CASE("reducer failure: finish() throws the failure of a peer with its rank") {
    std::vector<int> failed_ranks(3, -2);
    const auto errors = errors_of_ranks(3, [&](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      reducer.begin();
      if (group.rank() == 1) {
        group.abort("out of luck");
        return;
      }
      backward(reducer, group.rank(), 0);
      try {
        reducer.finish();
      } catch (const PeerFailed& failure) {
        failed_ranks[static_cast<std::size_t>(group.rank())] = failure.rank();
      }
      require(
          what_of([&] { reducer.begin(); }) == "GradientReducer: begin() after a step that failed",
          "begin after a failure");
    });
    CHECK(errors == Errors(3));
    CHECK(failed_ranks == std::vector<int>{1, -2, 1});
  }

  TEST_CASE("reducer failure: a mismatch in the all-reduce of a bucket names the bucket") {
    for (const std::size_t bucket : {0, 1}) {
      const auto errors = errors_of_ranks(2, [&](ProcessGroup& group) {
        Model model;
        GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
        if (group.rank() == 0) {
          reducer.begin();
          backward(reducer, 0, 0);
          reducer.finish();
        }
        for (std::size_t i = 0; i < bucket; ++i) {
          std::vector<float> gradients(reducer.plan().buckets[i].elements);
          group.all_reduce(as_buffer(gradients.data(), gradients.size()), ReduceOp::average).wait();
        }
        group.barrier().wait();
      });
      CHECK_MESSAGE(errors[0].find("called all_reduce(") != std::string::npos, errors[0]);
      CHECK_MESSAGE(errors[0].ends_with(" but rank 1 called barrier(); this failed bucket " +
                                        std::to_string(bucket) +
                                        " of this rank's gradients (ranks with different numbers "
                                        "of batches need uneven_inputs)"),
                    errors[0]);
      CHECK_MESSAGE(errors[1].ends_with(" but rank 1 called barrier()"), errors[1]);
    }
  }

  TEST_CASE("reducer failure: a timeout in finish() fails the peers too") {
    std::promise<void> gave_up;
    const auto errors = errors_of_ranks(2, [&](ProcessGroup& group) {
      Model model;
      std::optional<GradientReducer> reducer;
      reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
      reducer->begin();
      if (group.rank() == 0) {
        backward(*reducer, 0, 0);
        try {
          reducer->finish(Deadline::after(20ms));
        } catch (const Error& error) {
          require(error.code() == Errc::timeout, error.what());
        }
        reducer.reset();
        gave_up.set_value();
        return;
      }
      gave_up.get_future().wait();
      backward(*reducer, 1, 0);
      try {
        reducer->finish();
      } catch (const PeerFailed& failure) {
        require(failure.rank() == 0, "rank");
        throw Error(Errc::remote, "remote failure");
      }
    });
    CHECK(errors == Errors{"", "remote failure"});
  }

  TEST_CASE("reducer failure: destruction before the first complete bucket fails the peers") {
    using Leave = std::function<void(GradientReducer&)>;
    const std::vector<Leave> ways_to_leave = {
        [](GradientReducer& reducer) { reducer.begin(); },
        [](GradientReducer& reducer) { reducer.begin_forward(true); },
        [](GradientReducer& reducer) {
          reducer.begin();
          what_of([&] { reducer.finish(); });
        },
    };
    for (const auto& leave : ways_to_leave) {
      std::promise<void> peer_failed;
      const auto errors = errors_of_ranks(2, [&](ProcessGroup& group) {
        Model model;
        std::optional<GradientReducer> reducer;
        reducer.emplace(group, model.parameters, std::vector<Buffer>{}, kSmallBuckets);
        group.barrier().wait();
        if (group.rank() == 0) {
          leave(*reducer);
          reducer.reset();
          // The group is still usable: the peer's error is not its end.
          const auto failed = peer_failed.get_future().wait_for(10s);
          require(failed == std::future_status::ready, "the peer waits");
          return;
        }
        reducer->begin();
        backward(*reducer, 1, 0);
        try {
          reducer->finish(Deadline::after(20s));
        } catch (const PeerFailed&) {
          peer_failed.set_value();
          throw;
        }
      });
      CHECK(errors[0] == "");
      CHECK(errors[1].find("its gradient reducer was destroyed within a step") !=
            std::string::npos);
    }
  }

  TEST_CASE("reducer failure: destruction between steps leaves the group usable") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      for (int life = 0; life < 3; ++life) {
        Model model;
        GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
        reducer.begin();
        backward(reducer, group.rank(), 0);
        reducer.finish();
        if (life == 0) reducer.begin_forward(false);
        if (life == 1) reducer.begin(false);
      }
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("reducer failure: destruction within a step leaves no pending collective") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, kSmallBuckets);
      reducer.begin();
      if (group.rank() == 0) {
        backward(reducer, 0, 0);
        throw std::runtime_error("an exception in the backward pass");
      }
      for (std::size_t p = 5; p-- > 1;) reducer.ready(p);
      reducer.ready(0);
      reducer.finish();
    });
    CHECK(errors[0] == "an exception in the backward pass");
  }
}

}  // namespace gradient_reducer_failure_test
