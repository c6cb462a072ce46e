#include "launcher/stacks/symbol_reader.hpp"

#include "launcher/stacks/native_stack.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ddprun {

namespace {

constexpr std::string_view kReaderTitle = "symbol reader of ";
// Far above the usual use: the reader reads tables in parts, and keeps the text.
constexpr rlim_t kDataBytesMax = 256U << 20;
// Distinguishes complete output from truncated output.
constexpr char kCompleteMark = '\0';

template <typename T>
void put(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Removes a value from the front. Returns false if there are too few bytes.
template <typename T>
bool take_value(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

bool take_name(std::string_view& bytes, std::map<int, std::string>& names) {
  int id = 0;
  std::size_t size = 0;
  if (!take_value(bytes, id) || !take_value(bytes, size) || size > bytes.size()) return false;
  names[id] = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

bool take_stack(std::string_view& bytes, std::vector<control::ThreadStack>& stacks) {
  control::ThreadStack stack;
  if (!take_value(bytes, stack) || stack.frames > control::kStackFramesMax) return false;
  stacks.push_back(stack);
  return true;
}

/// Limits writable memory beyond the program's initial size, and disables core files.
void set_memory_limits() {
  rlim_t data_pages = 0;
  std::ifstream statm("/proc/self/statm");
  // size resident shared text lib data
  for (int field = 0; field < 6; ++field) statm >> data_pages;
  const rlim_t most = data_pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kDataBytesMax;
  const rlimit data{.rlim_cur = most, .rlim_max = most}, core{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_DATA, &data);
  ::setrlimit(RLIMIT_CORE, &core);
}

std::string read_standard_input() {
  std::string bytes;
  std::array<char, 65536> part{};
  while (true) {
    const auto count = ::read(STDIN_FILENO, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return bytes;
    bytes.append(part.data(), static_cast<std::size_t>(count));
  }
}

bool write_standard_output(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::string encode(const SymbolRequest& request) {
  std::string bytes;
  put(bytes, request.stacks.size());
  put(bytes, request.names.size());
  for (const auto& stack : request.stacks) put(bytes, stack);
  for (const auto& [id, name] : request.names) {
    put(bytes, id);
    put(bytes, name.size());
    bytes += name;
  }
  return bytes + request.memory_map;
}

std::optional<SymbolRequest> decode_symbol_request(std::string_view bytes) {
  SymbolRequest request;
  std::size_t stacks = 0, names = 0;
  if (!take_value(bytes, stacks) || !take_value(bytes, names)) return std::nullopt;
  for (; stacks > 0; --stacks) {
    if (!take_stack(bytes, request.stacks)) return std::nullopt;
  }
  for (; names > 0; --names) {
    if (!take_name(bytes, request.names)) return std::nullopt;
  }
  request.memory_map = bytes;
  return request;
}

std::optional<std::string> named_stacks_in(std::string_view output) {
  if (!output.ends_with(kCompleteMark)) return std::nullopt;
  output.remove_suffix(1);
  return std::string(output);
}

std::string symbol_reader_title() {
  return std::string(kReaderTitle) + std::to_string(::getpid());
}

bool is_symbol_reader(std::string_view name) {
  return name.starts_with(kReaderTitle);
}

int run_symbol_reader() {
  ::prctl(PR_SET_NAME, "symbol reader", 0, 0, 0);
  set_memory_limits();
  try {
    const auto request = decode_symbol_request(read_standard_input());
    if (!request) return 2;
    auto text =
        describe_named_stacks(request->stacks, request->names, parse_mappings(request->memory_map));
    text.resize(std::min(text.size(), kNamedStacksBytesMax));
    return write_standard_output(text + kCompleteMark) ? 0 : 1;
  } catch (const std::exception&) {
    return 1;  // as when out of memory
  }
}

}  // namespace ddprun
