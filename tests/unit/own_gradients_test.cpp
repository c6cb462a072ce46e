// Gradients in the caller's memory, and buckets of another type than the parameters.
#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"

#include <doctest/doctest.h>

#include <cstdint>

namespace own_gradients_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;

/// The model with its own gradients, whose elements are initially `fill`.
struct OwnModel : Model {
  std::vector<std::vector<float>> gradients;

  explicit OwnModel(float fill = 0) {
    for (const auto& value : values) gradients.emplace_back(value.size(), fill);
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      parameters[p].gradient = as_buffer(gradients[p].data(), gradients[p].size());
    }
  }

  void add(int rank, int step, std::size_t p) {
    for (std::size_t i = 0; i < gradients[p].size(); ++i) {
      gradients[p][i] += share(rank, step, p, i);
    }
  }

  void require_sums(int ranks, int step, float factor) const {
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      for (std::size_t i = 0; i < gradients[p].size(); ++i) {
        require(gradients[p][i] == factor * sum_of_shares(ranks, step, p, i),
                "parameter " + std::to_string(p));
      }
    }
  }
};

ddprun::ReducerOptions summing() {
  auto options = kSmallBuckets;
  options.op = ReduceOp::sum;
  return options;
}

constexpr std::uint16_t kOne = 0x3f80;  // bfloat16
constexpr std::uint16_t kTwoHundredFiftySix = 0x4380;

}  // namespace

TEST_SUITE("gradients in the caller's memory") {
  TEST_CASE("caller's gradients: gradients are averaged in place in every step") {
    for (const int ranks : {1, 2, 4}) {
      const auto errors = errors_of_ranks(ranks, [ranks](ProcessGroup& group) {
        OwnModel model(9);
        auto options = summing();
        options.rebuild_buckets = true;  // no effect on gradients outside the buckets
        GradientReducer reducer(group, model.parameters, {}, options);
        for (int step = 0; step < 3; ++step) {
          reducer.zero_gradients();
          for (const bool synchronise : {false, true}) {
            reducer.begin(synchronise);
            for (std::size_t p = 0; p < 5; ++p) {
              model.add(group.rank(), step, p);
              reducer.ready(p);
            }
            reducer.finish();
          }
          model.require_sums(ranks, step, 2);
        }
      });
      CHECK(errors == Errors(errors.size()));
    }
  }

  TEST_CASE("caller's gradients: an unused gradient is unchanged unless another rank uses it") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      OwnModel model(7);
      auto options = summing();
      options.find_unused_parameters = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      reducer.begin();
      for (std::size_t p = 2; p < 5; ++p) {
        if (p == 2 && group.rank() == 0) continue;
        reducer.ready(p);
      }
      reducer.finish();
      require(model.gradients[0][0] == 7 && model.gradients[1][0] == 7, "used by nobody");
      require(model.gradients[2][0] == 7, "used by rank 1");
      require(model.gradients[3][0] == 14, "used by both");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("caller's gradients: an accumulated gradient counts even if unused in the last step") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      OwnModel model;
      auto options = summing();
      options.find_unused_parameters = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      reducer.begin(false);
      for (std::size_t p = 0; p < 5; ++p) {
        model.add(group.rank(), 1, p);
        reducer.ready(p);
      }
      reducer.finish();
      reducer.begin();
      reducer.finish();
      model.require_sums(2, 1, 1);
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("caller's gradients: half gradients accumulate in float32 over steps and ranks") {
    // In bfloat16, 256 + 1 is 256.
    for (const bool static_graph : {false, true}) {
      const auto errors = errors_of_ranks(2, [static_graph](ProcessGroup& group) {
        std::vector<std::uint16_t> values(1500, kOne);
        std::vector<std::uint16_t> own(1500);
        Parameter parameter = {"w", {values.data(), values.size(), DataType::bfloat16}};
        parameter.gradient = {own.data(), own.size(), DataType::bfloat16};
        GradientReducer reducer(
            group, {parameter}, {},
            {.op = ReduceOp::sum, .static_graph = static_graph, .accumulate_in_float32 = true});
        require(reducer.gradient(0).type == DataType::float32, "type");
        require(reducer.plan().buckets[0].type == DataType::float32, "bucket's type");
        for (int step = 0; step < 3; ++step) {
          reducer.zero_gradients();
          for (int pass = 0; pass < 4; ++pass) {
            own.assign(own.size(), pass == 0 ? kTwoHundredFiftySix : kOne);
            reducer.begin(pass == 3);
            reducer.ready(0);
            reducer.finish();
          }
          const auto* sums = static_cast<const float*>(reducer.gradient(0).data);
          require(sums[0] == 2 * 259 && sums[1499] == 2 * 259, "sum");
        }
      });
      CHECK(errors == Errors(2));
    }
  }

  TEST_CASE("caller's gradients: backward passes can write float32 gradients of half parameters") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::vector<std::uint16_t> values(3, kOne);
      GradientReducer reducer(group, {{"w", {values.data(), 3, DataType::bfloat16}}}, {},
                              {.accumulate_in_float32 = true});
      require(values[2] == kOne, "parameters have their own type when they are broadcast");
      reducer.begin();
      for (auto& element : ddprun::test::gradient(reducer, 0)) {
        element = group.rank() == 0 ? 256.0F : 1.0F;
      }
      reducer.ready(0);
      reducer.finish();
      require(ddprun::test::gradient(reducer, 0)[2] == 128.5F, "average");
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("caller's gradients: memory of a wrong size or type is rejected") {
    auto groups = ProcessGroup::create_in_process(1);
    std::vector<float> memory(10);
    const auto make = [&](const Buffer& gradient, bool wide) {
      return what_of([&] {
        GradientReducer(groups[0], {{"w", as_buffer(memory.data(), 10), {}, gradient}}, {},
                        {.accumulate_in_float32 = wide});
      });
    };
    CHECK(make(as_buffer(memory.data(), 9), false) ==
          "GradientReducer: the gradient of parameter \"w\" has 9 elements, its values 10");
    CHECK(make({memory.data(), 10, DataType::bfloat16}, false) ==
          "GradientReducer: the gradient of parameter \"w\" is bfloat16, must be float32");
    CHECK(make({memory.data(), 10, DataType::int32}, true) ==
          "GradientReducer: the gradient of parameter \"w\" is int32, must be float32 or a half "
          "type");
    CHECK(make({memory.data(), 10, DataType::bfloat16}, true) == "");
  }

  TEST_CASE("caller's gradients: pre_divide rounds like PyTorch") {
    const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
      std::vector<float> value(1);
      GradientReducer reducer(group, {{"w", as_buffer(value.data(), 1)}}, {}, {.pre_divide = true});
      reducer.begin();
      ddprun::test::gradient(reducer, 0)[0] = 3e38F;  // their sum exceeds float32
      reducer.ready(0);
      reducer.finish();
      const float third = 3e38F / 3;
      require(ddprun::test::gradient(reducer, 0)[0] == third + third + third, "average");
    });
    CHECK(errors == Errors(3));
  }
}

}  // namespace own_gradients_test
