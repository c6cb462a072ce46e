#include "rendezvous/base/preflight_report.hpp"

#include <doctest/doctest.h>

#include <string>

namespace preflight_report_test {

using ddprun::kPreflightTextMax;
using ddprun::preflight_report_from;
using ddprun::PreflightReport;
using ddprun::to_lines;

namespace {

const PreflightReport kReport{.device = "CUDA device 2 (NVIDIA H200)",
                              .problem = "a matrix product is wrong",
                              .remark = "it is slow",
                              .memory_bytes_per_second = 4.1e12,
                              .product_flops = 3e13,
                              .exchange_bytes_per_second = 1.5e11,
                              .all_reduce_bytes_per_second = 1e11 / 3};

}  // namespace

TEST_SUITE("preflight report") {
  TEST_CASE("preflight report: a report round-trips") {
    CHECK(preflight_report_from(to_lines(kReport)) == kReport);
    CHECK(preflight_report_from(to_lines({})) == PreflightReport{});
  }

  TEST_CASE("preflight report: texts are joined into one line and cut") {
    auto report = kReport;
    report.problem = "one\ntwo\nend";
    report.remark = std::string(2 * kPreflightTextMax, 'x');
    const auto read = preflight_report_from(to_lines(report));
    REQUIRE(read);
    CHECK(read->problem == "one two end");
    CHECK(read->remark == std::string(kPreflightTextMax, 'x'));
  }

  TEST_CASE("preflight report: an incomplete report is rejected") {
    const auto lines = to_lines(kReport);
    for (std::size_t length = 0; length + 1 < lines.size(); ++length)
      CHECK_FALSE(preflight_report_from(lines.substr(0, length)));
  }

  TEST_CASE("preflight report: malformed files are rejected and unknown names skipped") {
    for (const char* lines : {"", "\n", "device\nend\n", "memory fast\nend\n", "memory -1\nend\n",
                              "memory nan\nend\n", "memory 1 2\nend\n"}) {
      CAPTURE(lines);
      CHECK_FALSE(preflight_report_from(lines));
    }
    CHECK(preflight_report_from("device CPU\nhumidity high\nend\n") ==
          PreflightReport{.device = "CPU"});
  }
}

}  // namespace preflight_report_test
