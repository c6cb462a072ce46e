#include "tests/fuzz/failure_target.hpp"

#include "launcher/process/error_file.hpp"
#include "tests/fuzz/promise.hpp"

#include <string>
#include <string_view>

namespace ddprun::fuzz {

namespace {

/// Space for the note about omitted text.
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
}

}  // namespace ddprun::fuzz
