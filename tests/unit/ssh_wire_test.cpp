// The bytes that ssh carries: task, greeting, and standard error before the greeting.
#include "launcher/ssh/greeting_reader.hpp"
#include "launcher/ssh/held_line.hpp"
#include "launcher/ssh/node_task.hpp"

#include <doctest/doctest.h>

namespace ssh_wire_test {

using namespace ddprun;
using namespace ddprun::ssh;

namespace {

NodeTask task() {
  return {.node_name = "c",
          .variables = {"A=1", "B="},
          .folder = "/work",
          .config_name = "c.json",
          .config_text = "{}\n",
          .arguments = {"--", "x", ""},
          .secret = std::string("\0\n", 2),
          .mark =
              "\x1e"
              "12",
          .columns = 60};
}

using Parts = GreetingReader::Parts;

/// Returns the result for bytes in pieces of this size.
Parts read(const std::string& bytes, std::size_t size) {
  GreetingReader reader;
  Parts all;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const auto parts = reader.read(std::string_view(bytes).substr(at, size));
    all.noise += parts.noise;
    all.output += parts.output;
  }
  return all;
}

}  // namespace

TEST_SUITE("task over ssh") {
  TEST_CASE("ssh task: a task round-trips") {
    const auto bytes = encode(task());
    CHECK(decode_node_task(bytes) == task());
    CHECK(framed(task()).substr(kGreeting.size() + 4) == bytes);
  }

  TEST_CASE("ssh task: a truncated or too long or malformed task is rejected") {
    const auto bytes = encode(task());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(decode_node_task(std::string_view(bytes).substr(0, size)));
    }
    CHECK_FALSE(decode_node_task(bytes + "x"));
    CHECK_FALSE(decode_node_task(std::string(64, '\xff')));
  }
}

TEST_SUITE("greeting over ssh") {
  TEST_CASE("ssh greeting: output is split at the greeting for any size of reads") {
    const auto greeting = std::string(kGreeting);
    const auto bytes = "Welcome\nDDPRUN-" + greeting + "one\n" + greeting;
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
      CHECK(read(bytes, size) == Parts{.noise = "Welcome\nDDPRUN-", .output = "one\n" + greeting});
    }
  }

  TEST_CASE("ssh greeting: output before the greeting is returned at once") {
    GreetingReader reader;
    CHECK(reader.read("Welcome\nDDPRUN-SSH") == Parts{.noise = "Welcome\n", .output = ""});
    CHECK_FALSE(reader.has_greeting());
    CHECK(reader.read("/3\nout") == Parts{.noise = "", .output = "out"});
    CHECK(reader.has_greeting());
  }

  TEST_CASE("ssh greeting: too much output before the greeting is an error") {
    for (const std::string& end : {std::string(kGreeting.size(), 'x'), std::string(kGreeting)}) {
      GreetingReader reader;
      reader.read(std::string(kNoiseBytesMax + 1, 'x') + end);
      CHECK(reader.has_failed());
      CHECK_FALSE(reader.has_greeting());
      CHECK(reader.read(std::string(kGreeting) + "out") == Parts{});
    }
    GreetingReader reader;
    reader.read(std::string(kNoiseBytesMax, 'x') + std::string(kGreeting));
    CHECK_FALSE(reader.has_failed());
  }
}

TEST_SUITE("held line of ssh") {
  TEST_CASE("held line: all lines but the last one are returned at once") {
    HeldLine line;
    CHECK(line.add("one\ntwo") == "one\n");
    CHECK(line.text() == "two");
    CHECK(line.add("\r\n\n").empty());
    CHECK(line.text() == "two");
    CHECK(line.add("three\r\n") == "two\r\n\n");
    CHECK(line.text() == "three");
    CHECK(line.release() == "three\r\n");
    CHECK(line.text().empty());
    CHECK(line.release().empty());
  }

  TEST_CASE("held line: no bytes are lost for any size of reads") {
    const std::string text = "\none\n\ntwo\r\nthree\n\n";
    for (std::size_t size = 1; size <= text.size(); ++size) {
      HeldLine line;
      std::string shown;
      for (std::size_t at = 0; at < text.size(); at += size) {
        shown += line.add(text.substr(at, size));
      }
      CHECK(line.text() == "three");
      CHECK(shown + line.release() == text);
    }
  }

  TEST_CASE("held line: a too long last line is returned") {
    HeldLine line;
    CHECK(line.add(std::string(kHeldLineBytesMax, 'x')).empty());
    CHECK(line.add("x").size() == kHeldLineBytesMax + 1);
    CHECK(line.text().empty());
  }
}

}  // namespace ssh_wire_test
