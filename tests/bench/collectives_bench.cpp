// all_reduce between two processes on the host backend, without copies and staged, next to what the
// machine's memory gives the same two processes: "read two streams, write both", which is what an
// all-reduce of two ranks cannot do without. Medians; ways and sizes take turns, so that a
// disturbance hits all alike.
//
//   ddprun --nproc_per_node=2 --no_python collectives_bench [ROUNDS]
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

namespace {

using namespace ddprun;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {4,       1 << 10, 16 << 10, 256 << 10,
                                  1 << 20, 4 << 20, 25 << 20, 64 << 20};
// One figure is taken over so many bytes, so that clock and start do not show.
constexpr std::size_t kBytesPerFigure = 64 << 20;
constexpr std::size_t kRepetitionsMax = 2000;

double seconds_of(std::size_t repetitions, const std::function<void()>& body) {
  const auto start = Clock::now();
  for (std::size_t i = 0; i < repetitions; ++i) body();
  return std::chrono::duration<double>(Clock::now() - start).count() /
         static_cast<double>(repetitions);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One rank's share of the work: it adds up half of two streams and stores the sum to both.
void probe(float* __restrict a, float* __restrict b, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

struct Figures {
  std::vector<double> probe, direct, staged;
};

std::map<std::size_t, Figures> measure(ProcessGroup& group, int rounds) {
  constexpr std::size_t kLargest = kSizes[std::size(kSizes) - 1];
  const auto shared = group.allocate(kLargest);
  auto* const direct = static_cast<float*>(shared.get());
  std::vector<float> own(kLargest / sizeof(float));
  std::fill_n(direct, own.size(), 0.0F);
  std::map<std::size_t, Figures> figures;
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t bytes : kSizes) {
      const std::size_t elements = bytes / sizeof(float);
      const std::size_t repetitions =
          std::clamp<std::size_t>(kBytesPerFigure / bytes, 1, kRepetitionsMax);
      Figures& row = figures[bytes];
      group.barrier().wait();
      row.probe.push_back(
          seconds_of(repetitions, [&] { probe(direct, own.data(), elements / 2); }));
      group.barrier().wait();
      row.direct.push_back(
          seconds_of(repetitions, [&] { group.all_reduce(as_buffer(direct, elements)).wait(); }));
      group.barrier().wait();
      row.staged.push_back(seconds_of(
          repetitions, [&] { group.all_reduce(as_buffer(own.data(), elements)).wait(); }));
    }
  }
  return figures;
}

void print(std::map<std::size_t, Figures>& figures) {
  std::printf("all_reduce of float32, medians in microseconds\n");
  std::printf("%10s %12s %12s %12s %16s\n", "bytes", "probe", "zero copy", "staged",
              "zero copy/probe");
  for (auto& [bytes, row] : figures) {
    const double direct = median(row.direct);
    std::printf("%10zu %12.2f %12.2f %12.2f %15.0f%%\n", bytes, median(row.probe) * 1e6,
                direct * 1e6, median(row.staged) * 1e6, median(row.probe) / direct * 100);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_worker([&](const WorkerEnv& env) {
    auto group = ProcessGroup::create(env, {.backend = "host"});
    auto figures = measure(group, argc > 1 ? std::atoi(argv[1]) : 7);
    if (env.rank == 0) print(figures);
    return 0;
  });
}
