#include "launcher/process/error_file.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

namespace ddprun {

namespace {

using nlohmann::json;

std::string string_at(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  if (found == object.end()) return "";
  return found->is_string() ? found->get<std::string>() : "";
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= ' ' || byte == '\n' || byte == '\t') result += byte;
  }
  return result;
}

}  // namespace

ErrorReport parse_error_report(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return {.message = printable(text), .traceback = ""};
  const auto message = document.find("message");
  if (message == document.end()) return {};
  if (!message->is_object()) return {.message = string_at(document, "message"), .traceback = ""};
  const auto extra = message->find("extraInfo");
  return {.message = string_at(*message, "message"),
          .traceback = extra == message->end() ? "" : string_at(*extra, "py_callstack")};
}

ErrorReport read_error_report(const std::filesystem::path& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::is_regular_file(file, error)) return {};
  std::ifstream stream(file, std::ios::binary);
  std::string text(kErrorFileBytesMax, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text.empty() ? ErrorReport{} : parse_error_report(text);
}

}  // namespace ddprun
