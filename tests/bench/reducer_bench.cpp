// Overhead of the gradient reducer in a training step: for a single rank, and for two ranks in one
// process compared with the same collectives without it.
#include <ddprun/gradient_reducer.hpp>

#include <benchmark/benchmark.h>

#include <functional>
#include <thread>
#include <vector>

namespace {

using ddprun::GradientReducer;
using ddprun::Parameter;
using ddprun::ProcessGroup;

/// A model of `count` parameters of equal size.
struct Model {
  std::vector<std::vector<float>> values;
  std::vector<Parameter> parameters;

  Model(std::int64_t count, std::int64_t elements)
      : values(static_cast<std::size_t>(count),
               std::vector<float>(static_cast<std::size_t>(elements))) {
    for (auto& value : values) {
      parameters.push_back(
          {"p" + std::to_string(parameters.size()), ddprun::as_buffer(value.data(), value.size())});
    }
  }
};

void step(GradientReducer& reducer, std::size_t parameters) {
  reducer.begin();
  for (std::size_t i = parameters; i-- > 0;) reducer.ready(i);
  reducer.finish();
}

/// Runs `body` on rank 1 until rank 0 is done with its own and has aborted the group.
class OtherRank {
 public:
  OtherRank(ProcessGroup rank0, const std::function<void()>& body)
      : rank0_(std::move(rank0)), thread_([body] {
          try {
            for (;;) body();
          } catch (const ddprun::Error&) {
            // The abort that ends the measurement.
          }
        }) {}
  OtherRank(const OtherRank&) = delete;
  OtherRank& operator=(const OtherRank&) = delete;
  ~OtherRank() {
    rank0_.abort("the measurement is over");
    thread_.join();
  }

 private:
  ProcessGroup rank0_;
  std::thread thread_;
};

void step_alone(benchmark::State& state) {
  auto groups = ProcessGroup::create_in_process(1);
  Model model(state.range(0), state.range(1));
  GradientReducer reducer(groups[0], model.parameters);
  for (auto _ : state) step(reducer, model.parameters.size());
}

void step_of_two(benchmark::State& state) {
  auto groups = ProcessGroup::create_in_process(2);
  Model model(state.range(0), state.range(1));
  Model other_model(state.range(0), state.range(1));
  const ddprun::ReducerOptions options{.verify_parameters = false, .broadcast_state = false};
  GradientReducer reducer(groups[0], model.parameters, {}, options);
  GradientReducer other(groups[1], other_model.parameters, {}, options);
  const OtherRank rank1(groups[0], [&] { step(other, other_model.parameters.size()); });
  for (auto _ : state) step(reducer, model.parameters.size());
}

/// The buckets of step_of_two, reduced without the reducer.
void collectives_of_two(benchmark::State& state) {
  auto groups = ProcessGroup::create_in_process(2);
  const Model model(state.range(0), state.range(1));
  const auto plan = ddprun::plan_buckets(model.parameters, {});
  std::vector<std::shared_ptr<void>> memory;
  std::vector<std::vector<ddprun::Buffer>> buckets(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (const auto& bucket : plan.buckets) {
      memory.push_back(groups[rank].allocate(bucket.elements * sizeof(float)));
      buckets[rank].push_back({memory.back().get(), bucket.elements, bucket.type});
    }
  }
  const auto reduce_all = [&](std::size_t rank) {
    std::vector<ddprun::Work> works;
    for (const auto& bucket : buckets[rank]) {
      works.push_back(groups[rank].all_reduce(bucket, ddprun::ReduceOp::average));
    }
    for (const auto& work : works) work.wait();
  };
  const OtherRank rank1(groups[0], [&] { reduce_all(1); });
  for (auto _ : state) reduce_all(0);
}

// Parameters, elements of each: the toy model's size, and 8.4 million as a medium one.
BENCHMARK(step_alone)->Args({4, 41})->Args({20, 420'000});
BENCHMARK(collectives_of_two)->Args({4, 41})->Args({20, 420'000})->UseRealTime();
BENCHMARK(step_of_two)->Args({4, 41})->Args({20, 420'000})->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
