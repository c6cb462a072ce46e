// Checks and results of a preflight without devices: on the CPU, and with ranks that are threads.
#include "tests/support/rank_threads.hpp"
#include "worker_runtime/cuda/exact_product.hpp"
#include "worker_runtime/preflight/cpu_exam.hpp"
#include "worker_runtime/preflight/exam.hpp"
#include "worker_runtime/preflight/exchange.hpp"
#include "worker_runtime/preflight/node_check.hpp"
#include "worker_runtime/preflight/pairing.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace preflight_checks_test {

using namespace ddprun::preflight;
namespace cuda = ddprun::cuda;
using ddprun::Deadline;
using ddprun::Device;
using ddprun::Errc;
using ddprun::Error;
using ddprun::PreflightReport;
using ddprun::ProcessGroup;
using ddprun::test::run_ranks;

namespace {

using Strings = std::vector<std::string>;

std::vector<float> product_of(const cuda::Factors& factors) {
  const std::size_t n = factors.n;
  std::vector<float> product(n * n);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      for (std::size_t k = 0; k < n; ++k)
        product[row * n + column] += factors.left[row * n + k] * factors.right[k * n + column];
    }
  }
  return product;
}

/// Results of each of `examines`, one rank for each.
std::vector<PreflightReport> reports_of(const std::vector<Examine>& examines) {
  std::vector<PreflightReport> reports(examines.size());
  run_ranks(static_cast<int>(examines.size()), [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const NodeCheck check{.examine = examines[rank],
                          .connect = [&](const Exam&) { return group; },
                          .settings = {.exam_limit = std::chrono::seconds(60)}};
    reports[rank] = check_node(group, check).report;
  });
  return reports;
}

Examine finds(const Exam& exam) {
  return [exam](Progress&) { return exam; };
}

Exam cpu(double memory = 1e9) {
  return {.name = "CPU", .memory_bytes_per_second = memory, .product_flops = 1e9};
}

Strings problems_of(const std::vector<PreflightReport>& reports) {
  Strings problems;
  for (const auto& report : reports) problems.push_back(report.problem);
  return problems;
}

}  // namespace

TEST_SUITE("exact product") {
  TEST_CASE("exact product: the row of a wrong element is found") {
    constexpr std::size_t kSize = 33;
    const cuda::Factors factors = cuda::make_factors(kSize);
    const auto product = product_of(factors);
    CHECK_FALSE(cuda::wrong_row(factors, product));
    for (std::size_t i = 0; i < product.size(); ++i) {
      for (const float wrong : {product[i] + 1, product[i] + 0.25F, -1e30F}) {
        auto changed = product;
        changed[i] = wrong;
        CHECK(cuda::wrong_row(factors, changed) == i / kSize);
      }
    }
  }

  TEST_CASE("exact product: the first of several wrong rows is returned") {
    const cuda::Factors factors = cuda::make_factors(8);
    auto product = product_of(factors);
    product[3 * 8 + 1] += 1;
    product[5 * 8] -= 2;
    CHECK(cuda::wrong_row(factors, product) == 3);
  }
}

TEST_SUITE("pairing") {
  TEST_CASE("pairing: every rank has one partner per round and no pair repeats") {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      CAPTURE(ranks);
      std::set<std::pair<int, int>> pairs;
      std::map<int, int> partners;
      for (const auto& round : pairings(ranks)) {
        std::set<int> busy;
        for (const auto& [low, high] : round) {
          CHECK(low < high);
          CHECK(high < ranks);
          CHECK(pairs.emplace(low, high).second);
          CHECK(busy.insert(low).second);
          CHECK(busy.insert(high).second);
          ++partners[low];
          ++partners[high];
        }
      }
      const int most = std::min(ddprun::kPreflightPartnersMax, ranks - 1);
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(partners[rank] >= most - ranks % 2);
        CHECK(partners[rank] <= most);
      }
    }
  }

  TEST_CASE("pairing: a rate below half of the median or of zero counts as slow") {
    struct Case {
      std::vector<double> rates;
      std::vector<int> slow;
    };
    const Case cases[] = {
        {{}, {}},
        {{1e9}, {}},
        {{2e9, 1e9}, {}},
        {{2e9, 0.9e9}, {1}},
        {{0, 0}, {0, 1}},
        {{2e9, 0.9e9, 2e9}, {1}},
        {{2e9, 1.1e9, 2e9}, {}},
        {{2e9, 0.9e9, 2e9, 0.9e9, 2e9}, {1, 3}},
        {{9e9, 1e9, 1e9}, {}},
    };
    for (const auto& [rates, slow] : cases) {
      const auto problems = slow_ranks(rates, "it runs at", "B/s");
      REQUIRE(problems.size() == rates.size());
      std::vector<int> found;
      for (std::size_t rank = 0; rank < problems.size(); ++rank) {
        if (!problems[rank].empty()) found.push_back(static_cast<int>(rank));
      }
      CHECK(found == slow);
    }
    CHECK(slow_ranks(std::vector{2e9, 0.5e9, 3e9}, "it runs at", "B/s")[1] ==
          "it runs at 0.5 GB/s, and half of the workers' devices have at least 2 GB/s");
  }
}

TEST_SUITE("exam") {
  TEST_CASE("preflight check: this machine's CPU passes") {
    Progress progress;
    const auto exam = examine_cpu({.memory_bytes = 1 << 20, .product_size = 64}, progress);
    CHECK(exam.problem.empty());
    CHECK(exam.memory_bytes_per_second > 0);
    CHECK(exam.product_flops > 0);
  }

  TEST_CASE("preflight check: an exception is reported with the device being checked") {
    const auto limited = examine_by(Deadline::after(std::chrono::seconds(60)), [](Progress& now) {
      now.note("CUDA device 3", ": multiplying");
      throw Error(Errc::cuda, "it fell off the bus");
      return Exam{};
    });
    CHECK_FALSE(limited.is_hung);
    CHECK(limited.exam.name == "CUDA device 3");
    CHECK(limited.exam.problem == "it fell off the bus");
  }

  TEST_CASE("preflight check: an unresponsive device is named with the operation") {
    std::promise<void> release;
    std::promise<void> over;
    const auto limited =
        examine_by(Deadline::after(std::chrono::milliseconds(50)), [&](Progress& now) {
          now.note("CUDA device 3", ": multiplying");
          release.get_future().wait();
          over.set_value();
          return Exam{};
        });
    CHECK(limited.is_hung);
    CHECK(limited.exam.name == "CUDA device 3");
    CHECK(limited.exam.problem.starts_with("it has not answered after 0."));
    CHECK(limited.exam.problem.ends_with("s allowed): multiplying"));
    release.set_value();
    over.get_future().wait();
  }
}

TEST_SUITE("node check") {
  TEST_CASE("node check: healthy workers exchange data and report no problem") {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
      const auto reports = reports_of(std::vector<Examine>(ranks, finds(cpu())));
      for (const auto& report : reports) {
        CHECK(report.device == "CPU");
        CHECK(report.problem.empty());
        CHECK(report.remark.empty());
        CHECK((report.exchange_bytes_per_second > 0) == (ranks > 1));
        CHECK((report.all_reduce_bytes_per_second > 0) == (ranks > 1));
      }
    }
  }

  TEST_CASE("node check: no exchange follows if a worker has a bad device") {
    auto bad = cpu();
    bad.problem = "its memory forgets";
    const auto reports = reports_of({finds(cpu()), finds(bad), finds(cpu())});
    CHECK(problems_of(reports) == Strings{"", "its memory forgets", ""});
    CHECK(reports[0].exchange_bytes_per_second == 0);
  }

  TEST_CASE("node check: a slow unshared device is a problem but a slow CPU only a remark") {
    const auto slow = reports_of({finds(cpu()), finds(cpu()), finds(cpu(0.4e9))});
    CHECK(problems_of(slow) == Strings{"", "", ""});
    CHECK(slow[2].remark ==
          "it reads and writes its memory at 0.4 GB/s, and half of the workers' "
          "devices have at least 1 GB/s");
    Exam device = cpu();
    device.device.kind = Device::Kind::cuda;
    Exam slow_device = device;
    slow_device.product_flops = 1e8;
    const auto on_devices = reports_of({finds(slow_device), finds(device), finds(device)});
    CHECK(problems_of(on_devices) ==
          Strings{"it multiplies matrices at 0.1 GFLOP/s, and half of the workers' devices have at "
                  "least 1 GFLOP/s",
                  "", ""});
    Exam shared = cpu();
    shared.is_shared = true;
    Exam slow_shared = shared;
    slow_shared.product_flops = 1e8;
    const auto on_shared = reports_of({finds(slow_shared), finds(shared)});
    CHECK(on_shared[0].remark.empty());
    CHECK(on_shared[0].problem.empty());
  }

  TEST_CASE("node check: a worker that lacks a GPU unlike others has a problem") {
    Exam device = cpu();
    device.device.kind = Device::Kind::cuda;
    const auto reports = reports_of({finds(device), finds(cpu()), finds(device)});
    CHECK(problems_of(reports) ==
          Strings{"", "it finds no GPU, but other workers of this node have one", ""});
  }

  TEST_CASE("node check: a failed exchange is a problem of its rank and the group stays usable") {
    run_ranks(3, [](ProcessGroup& group) {
      ProcessGroup exchanging = *group.new_group({0, 1, 2});
      if (group.rank() == 1) exchanging.abort("the test says so");
      const auto exchange = exchange_with_all(exchanging, {.elements = 1000});
      CHECK(exchange.bytes_per_second == 0);
      CHECK(exchange.problem.find("the test says so") != std::string::npos);
      CHECK(exchange.is_own_problem == (group.rank() == 1));
      group.barrier().wait();
    });
  }

  TEST_CASE("node check: an error of one rank fails the exchange of all ranks") {
    std::mutex mutex;
    int failures = 0;
    run_ranks(3, [&](ProcessGroup& group) {
      const NodeCheck check{.examine = finds(cpu()), .connect = [&](const Exam&) {
                              if (group.rank() == 1) group.abort("the test says so");
                              return group;
                            }};
      try {
        check_node(group, check);
      } catch (const Error&) {
        const std::lock_guard lock(mutex);
        ++failures;
      }
    });
    CHECK(failures == 3);
  }
}

}  // namespace preflight_checks_test
