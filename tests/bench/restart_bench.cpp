// Time from the SIGKILL of one of 8 workers until 8 new ones are past exec, without the agent:
// detecting the death, stopping the others, killing descendants, starting again.
//   restart_bench [injections] [marker|cgroup]
#include "launcher/process/worker_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace ddprun;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 8;

std::vector<WorkerSpec> workers() {
  std::vector<WorkerSpec> specs(kWorkers);
  for (int i = 0; i < kWorkers; ++i) {
    auto& spec = specs[static_cast<std::size_t>(i)];
    spec.rank = spec.local_rank = i;
    spec.arguments = {"/bin/sleep", "100000"};
  }
  return specs;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Phases {
  std::vector<double> noticed, stopped, swept, restarted;  ///< milliseconds after the SIGKILL
};

boost::asio::awaitable<void> measure(boost::asio::any_io_executor executor,
                                     Containment& containment, OutputRouter& router, int injections,
                                     Phases& phases) {
  Clock::time_point killed{};
  for (int i = 0; i <= injections; ++i) {
    WorkerGroup group(executor, i, containment, router, control::ControlPage::create(kWorkers));
    StartRetry retry(executor, i > 0);
    auto starting = group.start(workers(), retry);
    const auto started = co_await std::move(starting);
    if (i > 0) phases.restarted.push_back(milliseconds_since(killed));
    const auto& alive = std::get<std::vector<WorkerStarted>>(started);
    killed = Clock::now();
    ::kill(alive[static_cast<std::size_t>(i % kWorkers)].pid, SIGKILL);
    WorkerEvent event = co_await group.next();
    phases.noticed.push_back(milliseconds_since(killed));
    group.stop(SIGTERM, 30s);
    while (!std::holds_alternative<AllExited>(event)) event = co_await group.next();
    phases.stopped.push_back(milliseconds_since(killed));
    const auto swept = co_await group.sweep();
    phases.swept.push_back(milliseconds_since(killed));
  }
}

void print(const char* name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  std::printf("%-22s p50 %7.2f ms  p99 %7.2f ms  max %7.2f ms\n", name, at(0.5), at(0.99),
              values.back());
}

}  // namespace

int main(int argc, char** argv) {
  const int injections = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 200;
  const std::string mode = argc > 2 ? argv[2] : "";
  Containment containment({.mode = mode == "marker"   ? ContainmentMode::marker
                                   : mode == "cgroup" ? ContainmentMode::cgroup
                                                      : ContainmentMode::automatic});
  boost::asio::io_context io;
  OutputRouter router(io.get_executor(), {});
  Phases phases;
  auto measuring = measure(io.get_executor(), containment, router, injections, phases);
  boost::asio::co_spawn(io, std::move(measuring), boost::asio::detached);
  io.run();
  std::printf("%d injections, %d workers, %s\n", injections, kWorkers,
              containment.mode() == ContainmentMode::cgroup ? "cgroup" : "marker");
  print("death noticed", phases.noticed);
  print("all have ended", phases.stopped);
  print("swept", phases.swept);
  print("all new past exec", phases.restarted);
  return 0;
}
