// Messages of a rank that waits for missing ranks.
#include "tests/support/failure_text.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace waiting_notice_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Messages of a rank that is alone in a world of `world_size` ranks.
std::vector<std::string> messages_of_rank(const StoreEndpoint& store, int world_size,
                                          Deadline::Duration notice = 100ms,
                                          Deadline::Duration timeout = 3s) {
  WorkerEnv env;
  env.rank = world_size - 1;
  env.world_size = world_size;
  env.master_addr = store.host;
  env.master_port = store.port;
  GroupOptions options;
  options.backend = "host";
  options.join_timeout = timeout;
  options.waiting_notice = notice;
  std::mutex mutex;
  std::vector<std::string> lines;
  options.log = [&](LogLevel level, std::string_view line) {
    CHECK(level == LogLevel::warn);
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  CHECK(
      test::describe_failure([&] { ProcessGroup::create(env, options); }).starts_with("timeout: "));
  return lines;
}

/// In order, with any text between them; numbers are seconds.
void check_order(const std::string& line, const std::vector<std::string>& parts) {
  CAPTURE(line);
  std::size_t from = 0;
  for (const auto& part : parts) {
    CAPTURE(part);
    from = line.find(part, from);
    REQUIRE(from != std::string::npos);
    from += part.size();
  }
}

}  // namespace

TEST_SUITE("waiting notice") {
  TEST_CASE("waiting notice: an unreachable store is reported long before the deadline") {
    const test::FreePort port;
    const StoreEndpoint nobody{.port = static_cast<std::uint16_t>(port.number())};
    const auto lines = messages_of_rank(nobody, 2);
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.size() <= 5);
    check_order(lines[0], {"process group \"default\": rank 1 has waited ",
                           " s for the other rank at the store 127.0.0.1:" + port.text() +
                               ", which does not respond, and waits for ",
                           " s more (from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; unset "
                           "them to run one worker)"});
  }

  TEST_CASE("waiting notice: the message states that the store responds") {
    const test::TestStore store;
    const auto lines = messages_of_rank(store.endpoint(), 4);
    REQUIRE_FALSE(lines.empty());
    check_order(lines[0], {"rank 3 has waited ", " s for the 3 other ranks at the store ",
                           ", which responds, and waits for "});
  }

  TEST_CASE("waiting notice: the remaining time is omitted in the last second") {
    const test::TestStore store;
    const auto lines = messages_of_rank(store.endpoint(), 4, 100ms, 900ms);
    REQUIRE_FALSE(lines.empty());
    check_order(lines[0], {", which responds (from RANK"});
  }

  TEST_CASE("waiting notice: a single rank logs no notice") {
    std::vector<std::string> lines;
    GroupOptions options;
    options.waiting_notice = Deadline::Duration(1);
    options.log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
    ProcessGroup::create(WorkerEnv{}, options);
    CHECK(lines.empty());
  }

  TEST_CASE("waiting notice: an unlimited interval disables the notice") {
    const test::FreePort port;
    const StoreEndpoint nobody{.port = static_cast<std::uint16_t>(port.number())};
    CHECK(messages_of_rank(nobody, 2, Deadline::Duration::max(), 200ms).empty());
  }

  TEST_CASE("waiting notice: an interval of zero is rejected") {
    GroupOptions options;
    for (const auto after : {0s, -1s}) {
      options.waiting_notice = after;
      CHECK(test::describe_failure([&] { ProcessGroup::create(WorkerEnv{}, options); }) ==
            "usage: process group: waiting_notice has to be above 0");
    }
  }
}

}  // namespace waiting_notice_test
