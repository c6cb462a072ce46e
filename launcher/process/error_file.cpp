#include "launcher/process/error_file.hpp"

#include "rendezvous/base/json_nesting.hpp"
#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

using nlohmann::json;

// The year 2200: later timestamps are ignored.
constexpr double kLatestSeconds = 7'258'118'400.0;

std::string string_at(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : "";
}

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Returns at most `most` bytes from the beginning. Does not cut within a UTF-8 character.
std::string first_part_of(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && is_inside_character(text[most])) --most;
  return text.substr(0, most) + "\n... (cut off)";
}

/// Returns at most `most` bytes from the end; whole lines if there are several.
std::string last_part_of(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  auto begin = text.size() - most;
  const auto line = text.find('\n', begin);
  if (line != std::string::npos) begin = line + 1;
  while (begin < text.size() && is_inside_character(text[begin])) ++begin;
  return "... (cut off)\n" + text.substr(begin);
}

/// Parses seconds since 1970, which Python's torchelastic writes as text.
std::optional<std::chrono::system_clock::time_point> time_in(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find("timestamp");
  if (found == object.end()) return std::nullopt;
  double seconds = found->is_number() ? found->get<double>() : 0;
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  }
  if (!(seconds > 0 && seconds < kLatestSeconds)) return std::nullopt;
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(seconds)));
}

ErrorReport read_document(const json& document) {
  const auto message = document.find("message");
  if (message == document.end()) return {};
  if (!message->is_object()) {
    return {.message = string_at(document, "message"), .traceback = "", .when = time_in(document)};
  }
  // A reference: copying a value recurses for each level.
  static const json none;
  const auto found = message->find("extraInfo");
  const json& extra = found == message->end() ? none : *found;
  return {.message = string_at(*message, "message"),
          .traceback = string_at(extra, "py_callstack"),
          .when = time_in(extra),
          .code = errc_named(string_at(extra, "code"))};
}

/// Returns false for a file that only the agent may read and that the worker may have linked here,
/// so that its contents would appear in the report. A root agent's workers may run as any user.
bool is_workers_own(int fd) {
  struct stat status {};
  return ::geteuid() == 0 || (::fstat(fd, &status) == 0 && status.st_uid == ::geteuid());
}

}  // namespace

ErrorReport parse_error_report(std::string_view text) {
  const json document = is_nested_too_deeply(text) ? json() : json::parse(text, nullptr, false);
  auto report = document.is_object() ? read_document(document)
                                     : ErrorReport{.message = printable(text), .traceback = ""};
  report.message = first_part_of(std::move(report.message), kErrorMessageBytesMax);
  report.traceback = last_part_of(report.traceback, kErrorTracebackBytesMax);
  return report;
}

ErrorReport read_error_report(const HeldPath& file) {
  const auto fd = file.open_regular(O_RDONLY);
  if (fd.get() < 0 || !is_workers_own(fd.get())) return {};
  const auto text = read_at_most(fd.get(), kErrorFileBytesMax);
  return text.empty() ? ErrorReport{} : parse_error_report(text);
}

}  // namespace ddprun
