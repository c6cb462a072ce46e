// Round trips of the rendezvous store over loopback. One ADD is one request and one reply.
#include "tests/support/test_store.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <optional>
#include <sys/resource.h>
#include <vector>

namespace {

using ddprun::Deadline;
using ddprun::Store;
using ddprun::test::TestStore;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

/// Both ends of each idle connection are in this process.
void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// One server for all threads of a benchmark, with the number of idle connections of its argument.
class RoundTrips : public benchmark::Fixture {
 public:
  using benchmark::Fixture::SetUp;
  using benchmark::Fixture::TearDown;

  void SetUp(benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    raise_descriptor_limit();
    server = std::make_unique<TestStore>();
    for (std::int64_t i = 0; i < state.range(0); ++i) idle.push_back(server->connect());
  }

  void TearDown(benchmark::State& state) override {
    if (state.thread_index() != 0) return;
    idle.clear();
    server.reset();
  }

  std::unique_ptr<TestStore> server;
  std::vector<Store> idle;
};

BENCHMARK_DEFINE_F(RoundTrips, add)(benchmark::State& state) {
  // Threads other than the first may arrive here before its SetUp has ended; the loop below is the
  // first point that all reach.
  std::optional<Store> store;
  for (auto _ : state) {
    if (!store) store.emplace(server->connect());
    benchmark::DoNotOptimize(store->add("n", 1, soon()));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_REGISTER_F(RoundTrips, add)
    ->ArgName("idle")
    ->Arg(0)
    ->Arg(1000)
    ->Threads(1)
    ->Threads(4)
    ->UseRealTime();

void connect_and_greet(benchmark::State& state) {
  TestStore server;
  for (auto _ : state) benchmark::DoNotOptimize(server.connect());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(connect_and_greet)->UseRealTime();

void set_and_get_large_value(benchmark::State& state) {
  TestStore server;
  Store store = server.connect();
  const std::string value(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) {
    store.set("k", value, soon());
    benchmark::DoNotOptimize(store.get("k", soon()));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2);
}
BENCHMARK(set_and_get_large_value)->ArgName("bytes")->Arg(1 << 20)->Arg(8 << 20)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
