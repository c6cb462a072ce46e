#include "launcher/process/other_formats.hpp"

#include "rendezvous/base/random_bytes.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

int value_of(char digit) {
  return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/// Returns true if `digits` equal those of `magic`, in the bits that `mask` has, or in all bits if
/// it is empty.
bool is_equal(const std::string& digits, const std::string& magic, const std::string& mask) {
  if (digits.size() < magic.size() || (!mask.empty() && mask.size() != magic.size())) return false;
  for (std::size_t i = 0; i < magic.size(); ++i) {
    const int different = value_of(digits[i]) ^ value_of(magic[i]);
    if ((different & (mask.empty() ? 0xf : value_of(mask[i]))) != 0) return false;
  }
  return true;
}

}  // namespace

bool is_executed_by(const std::string& entry, const std::string& name, const std::string& head) {
  std::map<std::string, std::string> values;
  std::istringstream lines(entry);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    values[line.substr(0, space)] = space == std::string::npos ? "" : line.substr(space + 1);
  }
  if (!values.contains("enabled")) return false;
  // ".exe"; the kernel compares what follows the last dot.
  if (const auto& extension = values["extension"]; !extension.empty())
    return name.rfind('.') != std::string::npos && name.substr(name.rfind('.')) == extension;
  const auto& magic = values["magic"];
  std::size_t offset = 0;
  std::istringstream(values["offset"]) >> offset;
  if (magic.empty() || offset > head.size()) return false;
  return is_equal(hexadecimal(std::string_view(head).substr(offset)), magic, values["mask"]);
}

bool has_other_format(const fs::path& file, const std::string& head, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename();
    if (name == "register" || name == "status") continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (text.empty() || is_executed_by(text, file.filename(), head)) return true;
  }
  return false;
}

}  // namespace ddprun
