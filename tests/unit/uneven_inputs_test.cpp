#include "tests/support/rank_errors.hpp"
#include "tests/support/reducer_model.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace uneven_inputs_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

using Errors = std::vector<std::string>;

ddprun::ReducerOptions joining(UnevenInputs policy = UnevenInputs::average_over_all) {
  auto options = kSmallBuckets;
  options.uneven_inputs = policy;
  return options;
}

/// Batches of each rank.
const std::vector<int> kBatches = {3, 5, 1, 4};

/// Value of all ranks with input for the first element of parameter p after `step`.
float expected_average(std::size_t p, int step, UnevenInputs policy) {
  float sum = 0;
  int active = 0;
  for (int rank = 0; rank < 4; ++rank) {
    if (step >= kBatches[static_cast<std::size_t>(rank)]) continue;
    sum += share(rank, step, p, 0);
    ++active;
  }
  return sum / static_cast<float>(policy == UnevenInputs::average_over_active ? active : 4);
}

/// An epoch of this rank's batches, with a step of gradient descent after each.
void train_epoch(GradientReducer& reducer, Model& model, int rank, UnevenInputs policy) {
  for (int step = 0; step < kBatches[static_cast<std::size_t>(rank)]; ++step) {
    reducer.zero_gradients();
    reducer.begin();
    backward(reducer, rank, step);
    reducer.finish();
    for (std::size_t p = 0; p < 5; ++p) {
      // Thirds may differ in the last bit.
      const float expected = expected_average(p, step, policy);
      const float found = gradient(reducer, p)[0];
      require(std::abs(found - expected) <= 1e-6F * expected, "step " + std::to_string(step));
      for (std::size_t i = 0; i < model.values[p].size(); ++i) {
        model.values[p][i] -= gradient(reducer, p)[i];
      }
    }
  }
}

}  // namespace

TEST_SUITE("reducer with uneven inputs") {
  TEST_CASE("uneven inputs: ranks with fewer batches shadow the others and get equal results") {
    for (const auto policy : {UnevenInputs::average_over_all, UnevenInputs::average_over_active}) {
      for (const bool find_unused : {false, true}) {
        for (const bool rebuild : {false, true}) {
          if (find_unused && rebuild) continue;
          std::vector<std::vector<std::vector<float>>> ends(4);
          std::vector<std::vector<float>> buffers(4);
          const auto errors = errors_of_ranks(4, [&](ProcessGroup& group) {
            const auto rank = static_cast<std::size_t>(group.rank());
            Model model;
            std::vector<float> buffer = {0};
            auto options = joining(policy);
            options.find_unused_parameters = find_unused;
            options.rebuild_buckets = rebuild;
            options.broadcast_buffers = true;
            options.drift_check_steps = 1;
            GradientReducer reducer(group, model.parameters, {as_buffer(buffer.data(), 1)},
                                    options);
            for (int epoch = 0; epoch < 3; ++epoch) {
              train_epoch(reducer, model, group.rank(), policy);
              buffer[0] = static_cast<float>(10 * epoch + group.rank());
              reducer.join();
            }
            ends[rank] = model.values;
            buffers[rank] = buffer;
          });
          CHECK(errors == Errors(4));
          for (std::size_t rank = 1; rank < 4; ++rank) CHECK(ends[rank] == ends[0]);
          // Only rank 1 took the last step.
          for (const auto& buffer : buffers) CHECK(buffer[0] == 21);
        }
      }
    }
  }

  TEST_CASE("uneven inputs: unsynchronised steps are shadowed without bucket collectives") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = joining();
      options.op = ReduceOp::sum;
      GradientReducer reducer(group, model.parameters, {}, options);
      if (group.rank() == 0) {
        reducer.begin(false);
        backward(reducer, 0, 0);
        reducer.finish();
        int shadowed = 0;
        reducer.join([&] { ++shadowed; });
        require(shadowed == 3, "shadowed");
        return;
      }
      for (const bool synchronise : {false, false, true, true}) {
        if (synchronise) reducer.zero_gradients();
        reducer.begin(synchronise);
        backward(reducer, 1, 0);
        reducer.finish();
      }
      // Gradients that rank 0 accumulated and did not send are lost: it finished within a step.
      require(gradient(reducer, 2)[0] == share(1, 0, 2, 0), "sum");
      reducer.join();
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("uneven inputs: collectives of the training loop are called after each shadowed step") {
    const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, joining());
      float loss = 0;
      const auto sum_of_losses = [&](float own) {
        loss = own;
        group.all_reduce(as_buffer(&loss, 1)).wait();
      };
      for (int step = 0; step <= group.rank(); ++step) {
        reducer.begin();
        backward(reducer, group.rank(), step);
        reducer.finish();
        sum_of_losses(1);
        require(loss == static_cast<float>(3 - step), "loss");
      }
      reducer.join([&] { sum_of_losses(0); });
    });
    CHECK(errors == Errors(3));
  }

  TEST_CASE("uneven inputs: hooks average over the ranks with input only") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      Model model;
      auto options = joining(UnevenInputs::average_over_active);
      options.hook = compress(group, ddprun::DataType::float16);
      GradientReducer reducer(group, model.parameters, {}, options);
      if (group.rank() < 2) {
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) {
          for (auto& element : gradient(reducer, p)) element = 3;
          reducer.ready(p);
        }
        reducer.finish();
        require(gradient(reducer, 0)[0] == 3, "average");
      }
      reducer.join();
    });
    CHECK(errors == Errors(4));
  }

  TEST_CASE("uneven inputs: an average over ranks with input does not overflow through its sum") {
    // In float16, whose maximum is 65504; exact as three quarters, too.
    constexpr std::uint16_t kHalf = 0x7A00;
    constexpr float kValue = 49152;
    for (const bool with_hook : {false, true}) {
      const auto errors = errors_of_ranks(4, [with_hook](ProcessGroup& group) {
        std::vector<std::uint16_t> halves(4);
        std::vector<float> floats(4);
        auto options = joining(UnevenInputs::average_over_active);
        if (with_hook) options.hook = compress(group, ddprun::DataType::float16);
        const ddprun::Buffer values =
            with_hook ? as_buffer(floats.data(), 4)
                      : ddprun::Buffer{halves.data(), 4, ddprun::DataType::float16};
        GradientReducer reducer(group, {{"w", values}}, {}, options);
        if (group.rank() < 3) {
          reducer.begin();
          void* const data = reducer.gradient(0).data;
          auto* const as_floats = static_cast<float*>(data);
          auto* const as_halves = static_cast<std::uint16_t*>(data);
          if (with_hook) as_floats[2] = kValue;
          if (!with_hook) as_halves[2] = kHalf;
          reducer.ready(0);
          reducer.finish();
          require(with_hook ? as_floats[2] == kValue : as_halves[2] == kHalf, "average");
        }
        reducer.join();
      });
      CHECK(errors == Errors(4));
    }
  }

  TEST_CASE("uneven inputs: average_over_active is rejected with a hook over a subgroup") {
    auto groups = ProcessGroup::create_in_process(1);
    auto options = joining(UnevenInputs::average_over_active);
    options.hook = post_local_sgd(groups[0], {.start_step = 0});
    Model model;
    CHECK(what_of([&] { GradientReducer(groups[0], model.parameters, {}, options); }) ==
          "GradientReducer: average_over_active with bucket hook \"post-local SGD after 0\", "
          "which does not average over all ranks");
  }

  TEST_CASE("uneven inputs: pre_divide divides by the number of ranks with input") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      Model model;
      auto options = joining(UnevenInputs::average_over_active);
      options.pre_divide = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      if (group.rank() != 1) {
        reducer.begin();
        for (std::size_t p = 0; p < 5; ++p) {
          for (auto& element : gradient(reducer, p)) element = 9;
          reducer.ready(p);
        }
        reducer.finish();
        require(gradient(reducer, 4)[0] == 9, "average");
      }
      reducer.join();
    });
    CHECK(errors == Errors(4));
  }

  TEST_CASE("uneven inputs: throw_early stops all ranks when the first is finished") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, joining(UnevenInputs::throw_early));
      for (int step = 0; step < 2 + group.rank() % 2; ++step) {
        reducer.begin();
        backward(reducer, group.rank(), step);
        reducer.finish();
      }
      reducer.join();
    });
    CHECK(errors == Errors(4,
                           "GradientReducer: ranks 0, 2 have no more input, but other ranks "
                           "have; all ranks stop"));
    const auto even = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer reducer(group, model.parameters, {}, joining(UnevenInputs::throw_early));
      reducer.begin();
      backward(reducer, group.rank(), 0);
      reducer.finish();
      reducer.join();
    });
    CHECK(even == Errors(2));
  }

  TEST_CASE("uneven inputs: a static graph can be shadowed after the first step") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      auto options = joining();
      options.static_graph = true;
      options.rebuild_buckets = true;
      GradientReducer reducer(group, model.parameters, {}, options);
      for (int step = 0; step < (group.rank() == 0 ? 1 : 4); ++step) {
        reducer.zero_gradients();
        reducer.begin();
        for (std::size_t p = 0; p < 4; ++p) {
          for (auto& element : gradient(reducer, p)) element += 2;
          reducer.ready(p);
        }
        reducer.finish();
        require(gradient(reducer, 0)[0] == (step == 0 ? 2 : 1), "average");
      }
      reducer.join();
    });
    CHECK(errors == Errors(2));
  }

  TEST_CASE("uneven inputs: calls in the wrong order are reported") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      Model model;
      GradientReducer plain(group, model.parameters, {}, kSmallBuckets);
      require(what_of([&] { plain.join(); }) == "GradientReducer: join() without uneven_inputs",
              "without");
      GradientReducer reducer(group, model.parameters, {}, joining());
      const auto differ = what_of([&] { reducer.begin(group.rank() == 0); });
      require(differ == "GradientReducer: 1 of 2 ranks synchronise in this step, the others do not",
              differ);
      reducer.begin_forward(true);
      require(what_of([&] { reducer.begin_forward(true); }) ==
                  "GradientReducer: begin_forward() was called twice without begin()",
              "twice");
      require(what_of([&] { reducer.join(); }) ==
                  "GradientReducer: join() after begin_forward(), begin() is missing",
              "join");
      require(what_of([&] { reducer.begin(false); }) ==
                  "GradientReducer: begin() and begin_forward() differ in whether to synchronise",
              "differently");
    });
    CHECK(errors == Errors(2));
    auto alone = ProcessGroup::create_in_process(1);
    Model model;
    GradientReducer reducer(alone[0], model.parameters, {}, joining());
    CHECK_NOTHROW(reducer.join());
  }
}

}  // namespace uneven_inputs_test
