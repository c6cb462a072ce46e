// Retried starts: only of workers that could not be started, and for a limited time.
#include "launcher/process/worker_group.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <variant>

namespace worker_start_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

using Started = std::vector<WorkerStarted>;

/// A worker that runs a program that does not exist yet.
WorkerSpec absent_worker(const WorkerBench& bench, int local_rank) {
  auto spec = shell_worker(local_rank, "");
  spec.arguments = {(bench.folder() / ("program" + std::to_string(local_rank))).string()};
  return spec;
}

void make_program(const WorkerSpec& spec) {
  const fs::path& file = spec.arguments.front();
  std::ofstream(file) << "#!/bin/sh\necho late\n";
  fs::permissions(file, fs::perms::owner_all);
}

bool logs_retry(const WorkerBench& bench) {
  return std::any_of(bench.log().begin(), bench.log().end(), [](const std::string& line) {
    return line.find("retrying for up to") != std::string::npos;
  });
}

}  // namespace

TEST_SUITE("worker start") {
  TEST_CASE("worker start: a worker whose program is missing at first is started later") {
    WorkerBench bench(4);
    const auto first = absent_worker(bench, 0);
    const auto third = absent_worker(bench, 2);
    const auto once = [](const std::string& name) { return "echo " + name + "; sleep 1000"; };
    const auto result = bench.try_restart(
        {first, shell_worker(1, once("one")), third, shell_worker(3, once("three"))}, [&] {
          if (!logs_retry(bench)) return;
          if (!fs::exists(first.arguments.front())) return make_program(first);
          if (!fs::exists(third.arguments.front())) make_program(third);
        });
    REQUIRE(std::holds_alternative<Started>(result));
    const auto& started = std::get<Started>(result);
    REQUIRE(started.size() == 4);
    for (int rank = 0; rank < 4; ++rank)
      CHECK(started[static_cast<std::size_t>(rank)].rank == rank);
    CHECK(bench.log().size() == 1);
    bench.run_until([&] {
      const auto text = bench.console();
      return text.find("one") != std::string::npos && text.find("three") != std::string::npos;
    });
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK(bench.history().exited.size() == 4);
    const auto text = bench.console();
    CHECK(text.find("one") == text.rfind("one"));
  }

  TEST_CASE("worker start: a persistent error fails the worker and ends the others") {
    WorkerBench bench(2);
    const auto result = bench.try_restart(
        {shell_worker(0, "sleep 1000"), absent_worker(bench, 1)}, [] {}, 100ms);
    REQUIRE(std::holds_alternative<WorkerNotStarted>(result));
    const auto& failure = std::get<WorkerNotStarted>(result);
    CHECK(failure.rank == 1);
    CHECK_FALSE(failure.ends_the_run);
    CHECK(failure.message.find("the file does not exist") != std::string::npos);
    bench.run_until([&] { return bench.containment().members().empty(); });
    bench.run_to_end();
    CHECK(bench.history().exited.empty());
  }

  TEST_CASE("worker start: opening a log file is retried") {
    WorkerBench bench;
    auto spec = shell_worker(0, "echo logged");
    spec.standard_output.target = StreamTarget::file;
    spec.standard_output.file = bench.folder() / "absent" / "log";
    const auto result = bench.try_restart({spec}, [&] {
      if (logs_retry(bench)) fs::create_directory(bench.folder() / "absent");
    });
    REQUIRE(std::holds_alternative<Started>(result));
    bench.run_to_end();
    std::string text;
    std::ifstream(spec.standard_output.file.path()) >> text;
    CHECK(text == "logged");
  }

  TEST_CASE("worker start: no missing worker starts after stop() during a pause") {
    WorkerBench bench(2);
    bool is_stopped = false;
    const auto result =
        bench.try_restart({shell_worker(0, "exec sleep 1000"), absent_worker(bench, 1)}, [&] {
          if (is_stopped || !logs_retry(bench)) return;
          is_stopped = true;
          bench.group().stop(SIGTERM, 20s);
        });
    REQUIRE(std::holds_alternative<Started>(result));
    CHECK(std::get<Started>(result).size() == 1);
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).was_stopped);
  }
}

}  // namespace worker_start_test
