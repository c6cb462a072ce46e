#include "tests/fuzz/failure_target.hpp"

#include "launcher/process/error_file.hpp"
#include "launcher/report/exit_record.hpp"
#include "tests/fuzz/promise.hpp"

#include <string>
#include <string_view>

namespace ddprun::fuzz {

namespace {

/// For the words that say what has been left out.
constexpr std::size_t kMarkBytesMax = 256;

void check_text(const std::string& text, std::size_t bytes_max) {
  require(text.size() <= bytes_max + kMarkBytesMax, "what is kept of a text is bounded");
}

}  // namespace

void run_failure(std::span<const std::uint8_t> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const auto report = parse_error_report(text);
  check_text(report.message, kErrorMessageBytesMax);
  check_text(report.traceback, kErrorTracebackBytesMax);
  for (const bool is_whole : {true, false}) {
    const auto exit = from_record(text);
    if (!exit) continue;
    const auto once = from_record(to_record(*exit, is_whole));
    require(once.has_value(), "what is written is a record");
    require(to_record(*once, is_whole) == to_record(*exit, is_whole), "a record means one thing");
  }
}

}  // namespace ddprun::fuzz
