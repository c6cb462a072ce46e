// What goes over ssh, in bytes: tasks down, reports up.
#include "launcher/ssh/node_report.hpp"
#include "launcher/ssh/ssh_words.hpp"
#include "launcher/ssh/task.hpp"

#include <doctest/doctest.h>

namespace ssh_wire_test {

using namespace ddprun;
using namespace ddprun::ssh;

namespace {

using Kind = NodeReport::Kind;

RelayTask task() {
  return {.targets = {{.node = 3, .name = "c", .destination = "10.0.0.3"},
                      {.node = 7, .name = "g", .destination = "g"}},
          .ssh = {.user = "me",
                  .port = 22,
                  .options = {"-i", "key"},
                  .fan_out = 4,
                  .program = "/opt/ddprun"},
          .variables = {"A=1", "B="},
          .folder = "/work",
          .agent = {.config_name = "c.json",
                    .config_text = "{}\n",
                    .arguments = {"--", "x", ""},
                    .secret = std::string("\0\n", 2),
                    .mark = "\x1e"
                            "12",
                    .columns = 60}};
}

const std::vector<NodeReport> kReports = {
    {.kind = Kind::started, .node = 1},
    {.kind = Kind::standard_output, .node = 1, .text = std::string("a\0b\n", 4)},
    {.kind = Kind::standard_error, .node = 70'000, .text = "c"},
    {.kind = Kind::not_started, .node = 2, .text = "why"},
    {.kind = Kind::lost, .node = 3, .text = "how"},
    {.kind = Kind::ended, .node = 1, .exit_code = -9},
};

std::string all_reports() {
  std::string bytes(kGreeting);
  for (const auto& report : kReports) bytes += encode(report);
  return bytes;
}

}  // namespace

TEST_SUITE("task over ssh") {
  TEST_CASE("a task arrives as it was sent") {
    CHECK(decode_relay_task(encode(task())) == task());
    CHECK(decode_agent_task(encode(task().agent)) == task().agent);
    const auto bytes = encode(task());
    CHECK(framed(bytes).substr(kGreeting.size() + 4) == bytes);
  }

  TEST_CASE("what is cut short, too long or empty is no task") {
    const auto bytes = encode(task());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(decode_relay_task(std::string_view(bytes).substr(0, size)));
    }
    CHECK_FALSE(decode_relay_task(bytes + "x"));
    CHECK_FALSE(decode_agent_task(std::string(64, '\xff')));
    auto without_targets = task();
    without_targets.targets.clear();
    CHECK_FALSE(decode_relay_task(encode(without_targets)));
    auto without_fan_out = task();
    without_fan_out.ssh.fan_out = 0;
    CHECK_FALSE(decode_relay_task(encode(without_fan_out)));
  }
}

TEST_SUITE("reports over ssh") {
  TEST_CASE("reports arrive as they were sent, in pieces of any size") {
    const auto bytes = all_reports();
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      ReportReader reader;
      std::vector<NodeReport> found;
      for (std::size_t at = 0; at < bytes.size(); at += piece) {
        for (auto& report : reader.take(std::string_view(bytes).substr(at, piece))) {
          found.push_back(std::move(report));
        }
      }
      CHECK(found == kReports);
      CHECK_FALSE(reader.is_broken());
      CHECK(reader.take_noise() == "");
    }
  }

  TEST_CASE("what a shell prints before the greeting is noise, and told as such") {
    ReportReader reader;
    CHECK(reader.take("Welcome\nDDPRUN-").empty());
    CHECK_FALSE(reader.has_greeting());
    auto noise = reader.take_noise();
    CHECK(reader.take("SSH/2\n" + encode(kReports[0])) == std::vector<NodeReport>{kReports[0]});
    CHECK(reader.has_greeting());
    noise += reader.take_noise();
    CHECK(noise == "Welcome\n");
  }

  TEST_CASE("a shell that never stops is given up") {
    ReportReader reader;
    reader.take(std::string(kNoiseBytesMax, 'x'));
    CHECK_FALSE(reader.is_broken());
    reader.take(std::string(kGreeting.size(), 'x'));
    CHECK(reader.is_broken());
    CHECK(reader.take(all_reports()).empty());
  }

  TEST_CASE("bytes that are no report end the reading") {
    for (const char kind : {'\0', '\x07', '\xff'}) {
      auto bytes = encode(kReports[0]);
      bytes[0] = kind;
      ReportReader reader;
      CHECK(reader.take(std::string(kGreeting) + bytes).empty());
      CHECK(reader.is_broken());
    }
    auto bytes = encode(kReports[0]);
    bytes[11] = '\x01';  // the third byte of its length
    bytes[9] = '\x01';
    ReportReader reader;
    CHECK(reader.take(std::string(kGreeting) + bytes).empty());
    CHECK(reader.is_broken());
  }
}

TEST_SUITE("what ssh says before anybody answers") {
  TEST_CASE("all but the last line is shown at once") {
    SshWords words;
    CHECK(words.take("one\ntwo") == "one\n");
    CHECK(words.last() == "two");
    CHECK(words.take("\r\n\n").empty());
    CHECK(words.last() == "two");
    CHECK(words.take("three\r\n") == "two\r\n\n");
    CHECK(words.last() == "three");
    CHECK(words.take_rest() == "three\r\n");
    CHECK(words.last().empty());
    CHECK(words.take_rest().empty());
  }

  TEST_CASE("whatever the pieces, nothing is lost") {
    const std::string text = "\none\n\ntwo\r\nthree\n\n";
    for (std::size_t size = 1; size <= text.size(); ++size) {
      SshWords words;
      std::string shown;
      for (std::size_t at = 0; at < text.size(); at += size) {
        shown += words.take(text.substr(at, size));
      }
      CHECK(words.last() == "three");
      CHECK(shown + words.take_rest() == text);
    }
  }

  TEST_CASE("a line without an end is not held for ever") {
    SshWords words;
    CHECK(words.take(std::string(kHeldWordsMax, 'x')).empty());
    CHECK(words.take("x").size() == kHeldWordsMax + 1);
    CHECK(words.last().empty());
  }
}

}  // namespace ssh_wire_test
