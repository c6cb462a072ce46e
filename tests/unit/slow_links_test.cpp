// Findings of the detector of slow links for given samples.
#include "launcher/agent/slow_links.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace slow_links_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Use of a connection: megabytes per second, part of the time for which it sends, and the rate
/// that the kernel measures, in megabytes per second.
struct Use {
  double bytes = 0;
  double part = 0;
  double rate = 0;
};

constexpr Use kNormal{40, 0.4, 900};
constexpr Use kShaped{9.2, 0.92, 11};
constexpr Use kNone{};

std::string text_of(const SlowLink& link) {
  if (!link.is_slow) return link.node + " recovered";
  const bool is_earlier = link.reference == SlowLink::Reference::earlier;
  return link.node + " slow: rank " + std::to_string(link.rank) + ", " +
         std::to_string(std::lround(100 * link.part)) + " %, " +
         std::to_string(std::lround(link.speed / 1e6)) + " of " +
         std::to_string(std::lround(link.usual_speed / 1e6)) + " MB/s " +
         (is_earlier ? "earlier" : "to others") + ", " + std::to_string(link.time / 1s) + " s";
}

/// Connections of a node's rank 4 to the nodes b, c and so on, sampled every 2 s.
class Links {
 public:
  explicit Links(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      connections.push_back({std::string(1, static_cast<char>('b' + i)), 4, {.inode = 100 + i}});
  }

  /// Uses each connection for this time. Returns the findings, with the time until each.
  std::string pass(std::chrono::seconds time, const std::vector<Use>& uses) {
    std::string found;
    for (auto passed = 2s; passed <= time; passed += 2s) {
      now_ += 2s;
      for (std::size_t i = 0; i < uses.size(); ++i) use(connections[i].tcp, uses[i]);
      for (const auto& link : detector_.observe(now_, connections))
        found += (found.empty() ? "" : "; ") + std::to_string(passed / 1s) + ": " + text_of(link);
    }
    return found;
  }

  void suspend(std::chrono::seconds time) { now_ += time; }

  std::vector<LinkConnection> connections;

 private:
  static void use(TcpConnection& tcp, const Use& use) {
    tcp.sent_bytes += static_cast<std::uint64_t>(2e6 * use.bytes);
    tcp.sending += std::chrono::microseconds(std::lround(2e6 * use.part));
    if (use.bytes > 0) tcp.rate = static_cast<std::uint64_t>(1e6 * use.rate);
  }

  SlowLinkDetector detector_;
  RunClock::time_point now_{1h};
};

}  // namespace

TEST_SUITE("slow links") {
  TEST_CASE("slow links: the only link is compared with its earlier speed and reported once") {
    Links links(1);
    CHECK(links.pass(30s, {kNormal}).empty());
    CHECK(links.pass(60s, {kShaped}) == "16: b slow: rank 4, 92 %, 10 of 100 MB/s earlier, 16 s");
    CHECK(links.pass(60s, {kNormal}) == "16: b recovered");
    CHECK(links.pass(60s, {kShaped}) == "16: b slow: rank 4, 92 %, 10 of 100 MB/s earlier, 16 s");
  }

  TEST_CASE("slow links: a link that is slow from the beginning is compared with the others") {
    Links links(3);
    CHECK(links.pass(60s, {kNormal, kShaped, kNormal}) ==
          "22: c slow: rank 4, 92 %, 10 of 100 MB/s to others, 20 s");
    Links alone(1);
    CHECK(alone.pass(60s, {kShaped}).empty());
  }

  TEST_CASE("slow links: what delays data without a slow link is not reported") {
    struct Row {
      const char* cause;
      Use b;
      Use c;
    };
    for (const auto& row : {
             Row{"a receiver that acknowledges late", {9.2, 0.92, 900}, {9.2, 0.05, 900}},
             Row{"ranks that compute for longer", {4, 0.04, 900}, {4, 0.04, 900}},
             Row{"a receiver without room, which the kernel counts", {4, 0.04, 5}, kNormal},
             Row{"other work for most of the time", {4.5, 0.45, 10}, {4.5, 0.05, 900}},
             Row{"few bytes", {0.02, 0.9, 0.02}, {0.02, 0.01, 900}},
             Row{"nothing to send", kNone, kNone},
             Row{"a moderate difference", {40, 0.7, 600}, {40, 0.4, 900}},
         }) {
      CAPTURE(row.cause);
      Links links(2);
      CHECK(links.pass(60s, {kNormal, kNormal}).empty());
      CHECK(links.pass(60s, {row.b, row.c}).empty());
    }
  }

  TEST_CASE("slow links: links that are four times as fast as others by design are not compared") {
    Links links(3);
    CHECK(links.pass(60s, {{20, 0.8, 250}, {20, 0.2, 900}, {20, 0.2, 900}}).empty());
  }

  TEST_CASE("slow links: a save in the window does not hide a slow link") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK(links.pass(12s, {kShaped}).empty());
    CHECK(links.pass(4s, {kNone}).empty());
    CHECK(links.pass(4s, {kShaped}) == "4: b slow: rank 4, 92 %, 10 of 100 MB/s earlier, 16 s");
  }

  TEST_CASE("slow links: a short delay is not reported") {
    Links links(1);
    links.pass(30s, {kNormal});
    for (int i = 0; i < 5; ++i) {
      CHECK(links.pass(14s, {kShaped}).empty());
      CHECK(links.pass(40s, {kNormal}).empty());
    }
  }

  TEST_CASE("slow links: a link without traffic has not recovered") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK_FALSE(links.pass(20s, {kShaped}).empty());
    CHECK(links.pass(60s, {kNone}).empty());
    CHECK(links.pass(20s, {kNormal}) == "16: b recovered");
  }

  TEST_CASE("slow links: the time of a suspension does not count") {
    Links links(1);
    links.pass(30s, {kNormal});
    links.suspend(1h);
    CHECK(links.pass(60s, {kNormal}).empty());
    CHECK_FALSE(links.pass(18s, {kShaped}).empty());
  }

  TEST_CASE("slow links: of several ranks the one that sends for the longest time is named") {
    Links links(1);
    links.connections.push_back({"b", 5, {.inode = 200}});
    links.pass(30s, {kNormal, kNormal});
    CHECK(links.pass(18s, {{2, 0.5, 11}, {6, 0.8, 11}}) ==
          "16: b slow: rank 5, 80 %, 10 of 200 MB/s earlier, 16 s");
  }

  TEST_CASE("slow links: connections may be replaced") {
    Links links(1);
    links.pass(30s, {kNormal});
    links.connections[0].tcp = {.inode = 300};
    CHECK(links.pass(30s, {kNormal}).empty());
    links.connections[0].tcp = {.inode = 301};
    CHECK(links.pass(20s, {kShaped}) == "18: b slow: rank 4, 92 %, 10 of 100 MB/s earlier, 16 s");
  }
}

}  // namespace slow_links_test
