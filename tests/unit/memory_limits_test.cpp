#include "worker_runtime/backends/host/shared_memory/memory_limits.hpp"

#include "tests/support/failure_text.hpp"
#include "worker_runtime/backends/host/shared_memory/layout.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace memory_limits_test {

using namespace ddprun::shared_memory;
using ddprun::test::describe_failure;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kGiB = 1 << 30;

}  // namespace

TEST_SUITE("memory limits") {
  TEST_CASE("memory limits: the default arena size follows from the tightest limit") {
    struct Row {
      std::size_t wanted;
      int ranks;
      MemoryLimits limits;
      std::size_t expected;
    };
    const std::vector<Row> table = {
        {0, 1, {.machine = 24 * kGiB}, 12 * kGiB},
        {0, 4, {.machine = 24 * kGiB}, 3 * kGiB},
        {0, 2, {.machine = 24 * kGiB, .address_space = 4 * kGiB}, 512 * kMiB},
        {0, 1, {.machine = 24 * kGiB, .file = 4 * kGiB}, 4 * kGiB - 2 * kMiB},
        {0, 2, {.machine = 24 * kGiB, .file = 4 * kGiB}, 2 * kGiB - 2 * kMiB},
        {0, 4, {.machine = kGiB, .file = 4 * kGiB}, 128 * kMiB},
        // Too little for useful arenas: require_room() rejects it.
        {0, 2, {.machine = 24 * kGiB, .file = 20 * kMiB}, 16 * kMiB},
        {0, 2, {.machine = 24 * kGiB, .file = 0}, 16 * kMiB},
        {0, 2, {.machine = 24 * kGiB, .address_space = 0}, 16 * kMiB},
        {0, 2, {.machine = 0}, 16 * kMiB},
        {kMiB, 2, {.machine = 24 * kGiB}, 2 * kMiB},
        {kGiB, 2, {.machine = kGiB, .file = kMiB, .address_space = kMiB}, kGiB},
    };
    for (const auto& row : table) {
      CAPTURE(row.ranks);
      CAPTURE(row.limits.file);
      CHECK(choose_arena_bytes(row.wanted, row.ranks, row.limits) == row.expected);
    }
  }

  TEST_CASE("memory limits: default arenas of any number of ranks fit the file size limit") {
    for (int ranks = 1; ranks <= kRanksMax; ++ranks) {
      for (const std::size_t file : {32 * kGiB, 32 * kGiB - 1, 64 * kGiB + 4096}) {
        const MemoryLimits limits{.machine = 1024 * kGiB, .file = file};
        const Layout layout{ranks, choose_arena_bytes(0, ranks, limits)};
        CAPTURE(ranks);
        CHECK(layout.bytes() <= file);
        CHECK(layout.bytes() + static_cast<std::size_t>(ranks) * kArenaAlignment > file);
      }
    }
  }

  TEST_CASE("memory limits: the size of a group with the largest arenas does not overflow") {
    const std::size_t arenas = kRanksMax * ddprun::kArenaBytesMax;
    CHECK(arenas / kRanksMax == ddprun::kArenaBytesMax);
    const Layout layout{kRanksMax, choose_arena_bytes(ddprun::kArenaBytesMax, kRanksMax, {})};
    CHECK(layout.bytes() > arenas);
    CHECK(layout.bytes() < PTRDIFF_MAX);
  }

  TEST_CASE("memory limits: a group larger than a limit is rejected with value and remedy") {
    CHECK_NOTHROW(require_room(kGiB, {}));
    CHECK_NOTHROW(require_room(kGiB, {.file = kGiB, .address_space = kGiB}));
    CHECK(describe_failure([] { require_room(kGiB, {.file = kGiB - 1}); }) ==
          "system: group memory: 1024 MiB exceed the 1023 MiB that a file may have; raise the "
          "limit (ulimit -f) or lower GroupOptions::arena_bytes");
    CHECK(describe_failure([] { require_room(kGiB + 1, {.address_space = kGiB}); }) ==
          "system: group memory: 1025 MiB exceed the 1024 MiB that are left of the address space; "
          "raise the limit (ulimit -v) or lower GroupOptions::arena_bytes");
  }
}

}  // namespace memory_limits_test
