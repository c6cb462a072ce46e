#include "rendezvous/base/preflight_report.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace ddprun {

namespace {

struct TextField {
  std::string_view name;
  std::string PreflightReport::*value;
};

struct NumberField {
  std::string_view name;
  double PreflightReport::*value;
};

constexpr std::array kTexts = {TextField{"device", &PreflightReport::device},
                               TextField{"problem", &PreflightReport::problem},
                               TextField{"remark", &PreflightReport::remark}};

constexpr std::array kNumbers = {
    NumberField{"memory", &PreflightReport::memory_bytes_per_second},
    NumberField{"product", &PreflightReport::product_flops},
    NumberField{"exchange", &PreflightReport::exchange_bytes_per_second},
    NumberField{"all_reduce", &PreflightReport::all_reduce_bytes_per_second}};

/// Last line; missing if the writer was killed.
constexpr std::string_view kLastLine = "end";

std::string on_one_line(std::string text) {
  text.resize(std::min(text.size(), kPreflightTextMax));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string number_text(double number) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

bool read_number(std::string_view text, double& number) {
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end && number >= 0;
}

/// False if the value is not one of that name.
bool take(std::string_view name, std::string_view value, PreflightReport& report) {
  for (const auto& field : kTexts) {
    if (field.name == name) report.*field.value = std::string(value.substr(0, kPreflightTextMax));
  }
  return std::all_of(kNumbers.begin(), kNumbers.end(), [&](const NumberField& field) {
    return field.name != name || read_number(value, report.*field.value);
  });
}

}  // namespace

std::string to_lines(const PreflightReport& report) {
  std::string lines;
  const auto add = [&lines](std::string_view name, const std::string& value) {
    lines += std::string(name) + " " + value + "\n";
  };
  for (const auto& field : kTexts) add(field.name, on_one_line(report.*field.value));
  for (const auto& field : kNumbers) add(field.name, number_text(report.*field.value));
  return lines + std::string(kLastLine) + "\n";
}

std::optional<PreflightReport> preflight_report_from(std::string_view lines) {
  PreflightReport report;
  for (const auto& line : split(lines, '\n')) {
    if (line == kLastLine) return report;
    const auto space = line.find(' ');
    if (space == std::string::npos) return std::nullopt;
    const std::string_view whole = line;
    if (!take(whole.substr(0, space), whole.substr(space + 1), report)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ddprun
