// Times collectives of one or several backends, which alternate so that disturbances affect all
// alike, and the memory bandwidth of the machine for the same ranks.
//
//   ddprun --nproc_per_node=2 --no_python collective_bench -b 4 -e 64M -f 4 --vs host,gloo,mpich
//   mpirun -n 2 collective_bench --vs host,openmpi
#include "tests/bench/collective_bench/cases.hpp"
#include "tests/bench/collective_bench/figures.hpp"
#include "tests/bench/collective_bench/options.hpp"
#include "tests/bench/collective_bench/probe.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Space for two buffers and overhead.
std::size_t arena_bytes(const Options& options) {
  constexpr std::size_t kSpare = 16 << 20;
  return 2 * options.max_bytes + kSpare;
}

/// Seconds of a call on this rank.
double time_calls(int calls, const std::function<void()>& call) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

/// The mean over the ranks, like nccl-tests.
double mean_over_ranks(ProcessGroup& group, double value) {
  group.all_reduce(as_buffer(&value, 1), ReduceOp::average).wait();
  return value;
}

std::size_t sum_over_ranks(ProcessGroup& group, std::size_t value) {
  auto sum = static_cast<std::int64_t>(value);
  group.all_reduce(as_buffer(&sum, 1)).wait();
  return static_cast<std::size_t>(sum);
}

class Bench {
 public:
  Bench(const Options& options, WorkerEnv env) : options_(options), env_(std::move(env)) {
    for (const auto& backend : options_.backends) groups_.push_back(make_group(backend));
  }

  std::vector<Figure> run() {
    std::vector<Figure> all;
    for (const auto& collective : options_.collectives) {
      if (env_.rank == 0) std::printf("# %s\n", collective.c_str());
      for (const std::size_t bytes : sizes_of(options_)) {
        for (auto& figure : measure(collective, bytes)) {
          if (env_.rank == 0) print(figure, options_);
          all.push_back(std::move(figure));
        }
      }
    }
    return all;
  }

 private:
  /// A program that mpirun has started has no store; rank 0 hosts one if MPI can carry its address.
  void host_store(ProcessGroup& over_mpi) {
    if (env_.rank == 0) store_ = std::make_unique<test::TestStore>();
    std::int64_t port = store_ ? store_->endpoint().port : 0;
    over_mpi.broadcast(as_buffer(&port, 1), 0).wait();
    env_.master_port = static_cast<std::uint16_t>(port);
  }

  ProcessGroup make_group(const std::string& backend) {
    GroupOptions options;
    options.backend = backend;
    options.name = backend;
    options.arena_bytes = arena_bytes(options_);
    if (!env_.mpi_vendor.empty() && env_.master_port == 0 && env_.world_size > 1) {
      GroupOptions meeting = options;
      meeting.backend = "mpi";
      meeting.name = "meeting";
      auto over_mpi = ProcessGroup::create(env_, meeting);
      host_store(over_mpi);
    }
    return ProcessGroup::create(env_, options);
  }

  std::vector<Figure> measure(const std::string& collective, std::size_t bytes) {
    std::vector<Case> cases;
    for (auto& group : groups_) cases.emplace_back(collective, group, options_, bytes);
    std::vector<Figure> figures;
    for (std::size_t i = 0; i < cases.size(); ++i)
      figures.push_back(describe(collective, cases[i], groups_[i]));
    std::vector<std::vector<double>> seconds(cases.size());
    std::vector<std::vector<double>> calls(cases.size());
    std::vector<double> probe_seconds;
    Probe probe(cases.front().bytes(), env_.world_size);
    for (int round = 0; round < options_.rounds; ++round) {
      probe_seconds.push_back(time_probe(probe));
      for (std::size_t i = 0; i < cases.size(); ++i)
        seconds[i].push_back(time_case(cases[i], groups_[i], calls[i]));
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      figures[i].seconds = median(options_.latencies ? calls[i] : seconds[i]);
      if (options_.latencies) figures[i].p99_seconds = quantile(calls[i], 0.99);
      figures[i].to_first = figures[i].seconds / figures[0].seconds;
      if (collective == "all_reduce") figures[i].probe_seconds = median(probe_seconds);
    }
    return figures;
  }

  Figure describe(const std::string& collective, Case& one, ProcessGroup& group) {
    Figure figure{.collective = collective,
                  .backend = group.backend(),
                  .bytes = one.bytes(),
                  .count = one.count(),
                  .op = one.op(),
                  .root = one.root(),
                  .bus_factor = one.bus_factor()};
    if (options_.check) figure.wrong = sum_over_ranks(group, one.count_wrong());
    return figure;
  }

  double time_probe(Probe& probe) {
    groups_[0].barrier().wait();
    return mean_over_ranks(groups_[0], time_calls(options_.iterations, [&] { probe.call(); }));
  }

  double time_case(Case& one, ProcessGroup& group, std::vector<double>& calls) {
    for (int i = 0; i < options_.warmup_iterations; ++i) one.call();
    group.barrier().wait();
    if (!options_.latencies && !options_.rewrite)
      return mean_over_ranks(group, time_calls(options_.iterations, [&] { one.call(); }));
    double sum = 0;
    for (int i = 0; i < options_.iterations; ++i) {
      if (options_.rewrite) {
        one.write_input();
        groups_[0].barrier().wait();
      }
      calls.push_back(time_calls(1, [&] { one.call(); }));
      sum += calls.back();
    }
    return mean_over_ranks(group, sum / options_.iterations);
  }

  const Options& options_;
  WorkerEnv env_;
  std::unique_ptr<test::TestStore> store_;
  std::vector<ProcessGroup> groups_;
};

/// Checked on the ranks: too large buffers would use up the machine's memory.
void check_on_this_machine(const Options& options, const WorkerEnv& env) {
  if (options.root >= env.world_size) {
    throw Error(Errc::usage, "--root: " + std::to_string(options.root) + " is not within 0.." +
                                 std::to_string(env.world_size - 1));
  }
  const double wanted = static_cast<double>(arena_bytes(options)) * env.local_world_size *
                        static_cast<double>(options.backends.size());
  const double there =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (wanted <= there) return;
  constexpr double kGibi = 1 << 30;
  char text[160];
  std::snprintf(text, sizeof text,
                "--maxbytes: the buffers of %d ranks over %zu backends take %.1f GiB, and this "
                "machine has %.1f GiB",
                env.local_world_size, options.backends.size(), wanted / kGibi, there / kGibi);
  throw Error(Errc::usage, text);
}

int run(const Options& options, const WorkerEnv& env) {
  check_on_this_machine(options, env);
  std::optional<FigureFiles> files;
  if (env.rank == 0) files.emplace(options);
  Bench bench(options, env);
  if (env.rank == 0) print_header(options, env.world_size);
  const auto figures = bench.run();
  if (env.rank != 0) return 0;
  files->write(env.world_size, figures);
  for (const auto& figure : figures) {
    if (figure.wrong.value_or(0) > 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  const auto parsed = ddprun::bench::parse(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<ddprun::bench::Options>(parsed);
  return ddprun::run_worker(
      [&](const ddprun::WorkerEnv& env) { return ddprun::bench::run(options, env); });
}
