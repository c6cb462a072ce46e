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
constexpr Use kLittle{2, 0.02, 900};
constexpr Use kNone{};

std::string text_of(const SlowLink& link) {
  if (!link.is_slow) return link.node + " recovered: rank " + std::to_string(link.rank);
  return link.node + " slow: rank " + std::to_string(link.rank) + ", " +
         std::to_string(std::lround(100 * link.part)) + " %, " +
         std::to_string(std::lround(link.speed / 1e6)) + " of " +
         std::to_string(std::lround(link.usual_speed / 1e6)) + " MB/s, " +
         std::to_string(link.time / 1s) + " s";
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
    CHECK(links.pass(60s, {kShaped}) == "16: b slow: rank 4, 92 %, 10 of 100 MB/s, 16 s");
    CHECK(links.pass(60s, {kNormal}) == "16: b recovered: rank 4");
    CHECK(links.pass(60s, {kShaped}) == "16: b slow: rank 4, 92 %, 10 of 100 MB/s, 16 s");
  }

  TEST_CASE("slow links: a link that is slow from the beginning is not reported") {
    Links links(3);
    CHECK(links.pass(60s, {kNormal, kShaped, kNormal}).empty());
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
             Row{"data that another slow link provides in pieces",
                 {6.3, 0.63, 10},
                 {6.3, 0.63, 10}},
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

  TEST_CASE("slow links: a save in the window does not hide a slow link") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK(links.pass(12s, {kShaped}).empty());
    CHECK(links.pass(4s, {kNone}).empty());
    CHECK(links.pass(4s, {kShaped}) == "4: b slow: rank 4, 92 %, 10 of 100 MB/s, 16 s");
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
    CHECK(links.pass(60s, {{0.05, 0.005, 11}}).empty());
    CHECK(links.pass(20s, {kNormal}) == "16: b recovered: rank 4");
  }

  TEST_CASE("slow links: a link has recovered if most steps take longer than a sample") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK_FALSE(links.pass(20s, {kShaped}).empty());
    std::string found;
    for (int i = 0; i < 10; ++i) found += links.pass(4s, {kNone}) + links.pass(2s, {kNormal});
    CHECK(found == "2: b recovered: rank 4");
  }

  TEST_CASE("slow links: a little traffic over a link that is still slow does not end the report") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK_FALSE(links.pass(20s, {kShaped}).empty());
    CHECK(links.pass(60s, {{1, 0.1, 11}}).empty());
    CHECK(links.pass(120s, {kShaped}).empty());
    CHECK(links.pass(20s, {kNormal}) == "16: b recovered: rank 4");
  }

  TEST_CASE("slow links: the time of a suspension does not count") {
    Links links(1);
    links.pass(30s, {kNormal});
    links.suspend(1h);
    CHECK(links.pass(60s, {kNormal}).empty());
    CHECK(links.pass(14s, {kShaped}).empty());
    links.suspend(1h);
    CHECK(links.pass(4s, {kShaped}).empty());
    CHECK(links.pass(20s, {kShaped}) == "14: b slow: rank 4, 92 %, 10 of 100 MB/s, 16 s");
  }

  TEST_CASE("slow links: the time without traffic counts") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK(links.pass(14s, {kShaped}).empty());
    CHECK(links.pass(1h, {kNone}).empty());
    CHECK(links.pass(14s, {kShaped}).empty());
  }

  TEST_CASE("slow links: of several ranks the one that sends for the longest time is named") {
    Links links(1);
    links.connections.push_back({"b", 5, {.inode = 200}});
    links.pass(30s, {kNormal, kNormal});
    CHECK(links.pass(18s, {{2, 0.5, 11}, {6, 0.8, 11}}) ==
          "16: b slow: rank 5, 80 %, 8 of 100 MB/s, 16 s");
  }

  TEST_CASE("slow links: a connection is not compared with others to the same node") {
    Links links(1);
    links.connections.push_back({"b", 4, {.inode = 200}});
    CHECK(links.pass(30s, {{400, 0.9, 900}, kNone}).empty());  // a broadcast
    // Small messages, which never provide enough data for a measurement.
    CHECK(links.pass(60s, {kNone, {2, 0.9, 5}}).empty());
    links.connections[1].tcp = {.inode = 201};
    CHECK(links.pass(60s, {kNone, {1, 0.9, 2}}).empty());
  }

  TEST_CASE("slow links: connections of the node that share a link are not slow") {
    Links links(1);
    links.pass(30s, {{200, 1, 200}});
    for (std::uint64_t inode = 200; inode < 203; ++inode)
      links.connections.push_back({"b", 5, {.inode = inode}});
    CHECK(links.pass(60s, std::vector<Use>(4, {50, 1, 50})).empty());
  }

  TEST_CASE("slow links: a rate that the kernel has not measured is not compared") {
    Links links(1);
    CHECK(links.pass(60s, {{40, 0.4, 0}}).empty());
    CHECK(links.pass(14s, {kShaped}).empty());
    CHECK(links.pass(60s, {kNormal}).empty());
    CHECK(links.pass(60s, {{9.2, 0.92, 0}}).empty());
  }

  TEST_CASE("slow links: a link is slow until all its slow connections have recovered") {
    Links links(1);
    links.connections.push_back({"b", 5, {.inode = 200}});
    links.pass(30s, {kNormal, kNormal});
    CHECK(links.pass(20s, {kShaped, kLittle}) == "16: b slow: rank 4, 92 %, 10 of 100 MB/s, 16 s");
    CHECK(links.pass(40s, {kShaped, kShaped}).empty());
    CHECK(links.pass(40s, {kNormal, kShaped}).empty());
    CHECK(links.pass(20s, {kNormal, kNormal}) == "16: b recovered: rank 4");
  }

  TEST_CASE("slow links: other connections replace a slow one that has closed") {
    Links links(1);
    links.pass(30s, {kNormal});
    CHECK_FALSE(links.pass(20s, {kShaped}).empty());
    links.connections.clear();
    CHECK(links.pass(60s, {}).empty());
    links.connections.push_back({"b", 5, {.inode = 300}});
    links.connections.push_back({"b", 5, {.inode = 301}});
    CHECK(links.pass(60s, {kShaped, {1, 0.9, 2}}).empty());
    CHECK(links.pass(60s, {kNormal, {1, 0.9, 2}}) == "16: b recovered: rank 4");
    CHECK(links.pass(20s, {kShaped, {1, 0.9, 2}}) ==
          "16: b slow: rank 5, 92 %, 10 of 100 MB/s, 16 s");
  }

  TEST_CASE("slow links: a socket with the number of a closed one is another connection") {
    Links links(1);
    links.pass(30s, {kNormal});
    links.connections[0].tcp = {.inode = 100};
    CHECK(links.pass(60s, {kShaped}).empty());
  }
}

}  // namespace slow_links_test
