#include "launcher/process/waiting_code.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/processor.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <sys/syscall.h>
#include <sys/uio.h>

namespace ddprun {

namespace {

/// Frames of the C and C++ libraries take some 30 words, those of a caller some more.
constexpr std::size_t kWordsMax = 64;

constexpr bool kIsAarch64 = kProcessor == Processor::aarch64;
/// Other bits of a return address may be its signature (pointer authentication), if user addresses
/// have 48 bits, as on most kernels.
constexpr std::uint64_t kAddressBits =
    kIsAarch64 ? (std::uint64_t{1} << 48U) - 1 : ~std::uint64_t{0};
constexpr auto* const kEndsWithCall =
    kIsAarch64 ? ends_with_call_of_aarch64 : ends_with_call_of_x86_64;

/// Libraries whose frames are between a caller and its system call. Older C libraries have a
/// separate one for threads.
constexpr std::string_view kBetween[] = {"libc.so", "libc-",     "libpthread",
                                         "ld-",     "libstdc++", "ld-linux"};

/// Libraries whose threads wait for other ranks. Gloo is part of libtorch.
constexpr std::string_view kCollectiveLibraries[] = {
    "libtorch_", "libtorch.",   "libgloo", "libnccl", "librccl", "libccl",
    "libmpi",    "libopen-pal", "libucc",  "libucp",  "libucs"};

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_between(std::string_view path) {
  const auto name = file_name(path);
  return path.starts_with('[') ||
         std::any_of(std::begin(kBetween), std::end(kBetween),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

bool is_pytorch(std::string_view path) {
  return file_name(path).starts_with("libtorch");
}

/// Returns the stack pointer in the text of /proc/PID/syscall, its second last word; 0: none.
std::uint64_t stack_pointer(std::string_view text) {
  const auto end = text.find_last_of(' ');
  if (end == std::string_view::npos || end == 0) return 0;
  const auto begin = text.find_last_of(' ', end - 1) + 1;
  auto word = text.substr(begin, end - begin);
  if (!word.starts_with("0x")) return 0;
  word.remove_prefix(2);
  std::uint64_t address = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), address, 16);
  return parsed.ec == std::errc() ? address : 0;
}

std::vector<Mapping> code_of(pid_t pid) {
  std::string executable;
  for (const auto& line : split(memory_map(pid), '\n')) {
    // "7f0000000000-7f0000001000 r-xp ..."
    const auto rights = line.find(' ');
    if (rights != std::string::npos && line.substr(rights + 1, 4).find('x') != std::string::npos)
      executable += line + "\n";
  }
  return parse_mappings(executable);
}

/// Returns the number of bytes read.
std::size_t read_memory(pid_t pid, std::uint64_t address, void* to, std::size_t bytes) {
  iovec local{.iov_base = to, .iov_len = bytes};
  iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes};
  const ssize_t result = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return result > 0 ? static_cast<std::size_t>(result) : 0;
}

std::vector<std::uint64_t> words_at(pid_t pid, std::uint64_t address) {
  std::vector<std::uint64_t> words(kWordsMax);
  const auto bytes = read_memory(pid, address, words.data(), words.size() * sizeof(std::uint64_t));
  words.resize(bytes / sizeof(std::uint64_t));
  for (auto& word : words) word &= kAddressBits;
  return words;
}

const Mapping* mapping_of(std::uint64_t address, const std::vector<Mapping>& code) {
  const auto found = std::find_if(code.begin(), code.end(), [address](const Mapping& each) {
    return each.begin <= address && address < each.end;
  });
  return found == code.end() ? nullptr : &*found;
}

/// Numbers on a stack may lie in code by chance: a process maps gigabytes of libraries.
bool is_return_address(pid_t pid, std::uint64_t word, const std::vector<Mapping>& code) {
  const bool is_aligned = !kIsAarch64 || word % 4 == 0;
  if (!is_aligned || mapping_of(word, code) == nullptr) return false;
  std::array<std::uint8_t, kCallBytesMax> before{};
  return read_memory(pid, word - before.size(), before.data(), before.size()) == before.size() &&
         kEndsWithCall(before);
}

std::string system_call_text(pid_t pid) {
  return read_text("/proc/" + std::to_string(pid) + "/syscall");
}

/// Returns the file whose code has made the system call in the text of /proc/PID/syscall.
std::string code_in_call(pid_t pid, std::string_view text) {
  const auto address = stack_pointer(text);
  if (address == 0) return {};
  const auto code = code_of(pid);
  auto words = words_at(pid, address);
  std::erase_if(words, [&](auto word) { return !is_return_address(pid, word, code); });
  return calling_code(words, code);
}

/// Returns the length of a call of x86-64 with this operand (FF /2); 0 for other instructions.
std::size_t indirect_call_length(std::uint8_t operand) {
  constexpr unsigned kCallDigit = 2;
  const unsigned mode = operand >> 6, digit = operand >> 3 & 7U, base = operand & 7U;
  if (digit != kCallDigit) return 0;
  const std::size_t with_index = base == 4 && mode != 3 ? 1 : 0;
  if (mode == 0) return 2 + with_index + (base == 5 ? 4 : 0);
  if (mode == 1) return 2 + with_index + 1;
  return mode == 2 ? 2 + with_index + 4 : 2;
}

}  // namespace

std::string calling_code(std::span<const std::uint64_t> stack, const std::vector<Mapping>& code) {
  std::vector<std::string_view> files;  // of words, innermost first
  for (const auto word : stack) {
    const Mapping* const mapping = mapping_of(word, code);
    if (mapping != nullptr && !is_between(mapping->file)) files.push_back(mapping->file);
  }
  if (!files.empty() && is_collective_library(files.front())) return std::string(files.front());
  const auto weight = [&files](std::string_view file) {
    return 2 * std::count(files.begin(), files.end(), file) + (is_collective_library(file) ? 1 : 0);
  };
  const auto most = std::max_element(files.begin(), files.end(), [&](auto one, auto other) {
    return weight(one) < weight(other);
  });
  return most == files.end() ? std::string() : std::string(*most);
}

bool ends_with_call_of_x86_64(CodeBefore code) {
  constexpr std::uint8_t kDirect = 0xE8, kIndirect = 0xFF;
  constexpr std::size_t kDirectLength = 5, kIndirectLengthMin = 2;
  if (code[code.size() - kDirectLength] == kDirect) return true;
  for (auto length = kIndirectLengthMin; length <= code.size(); ++length) {
    const auto* const begin = code.data() + code.size() - length;
    if (begin[0] == kIndirect && indirect_call_length(begin[1]) == length) return true;
  }
  return false;
}

bool ends_with_call_of_aarch64(CodeBefore code) {
  std::uint32_t instruction = 0;
  for (std::size_t i = 0; i < sizeof instruction; ++i)
    instruction |= std::uint32_t{code[code.size() - sizeof instruction + i]} << 8 * i;
  const auto matches = [instruction](std::uint32_t mask, std::uint32_t value) {
    return (instruction & mask) == value;
  };
  // BL, BLR, and BLRAA and its variants.
  return matches(0xFC00'0000, 0x9400'0000) || matches(0xFFFF'FC1F, 0xD63F'0000) ||
         matches(0xFEFF'F800, 0xD63F'0800);
}

std::string waiting_code(pid_t pid) {
  return code_in_call(pid, system_call_text(pid));
}

std::string sleeping_code(pid_t pid) {
  const auto text = system_call_text(pid);
  const auto call = parse_system_call(text);
  if (!call || (call->number != SYS_clock_nanosleep && call->number != SYS_nanosleep)) return {};
  return code_in_call(pid, text);
}

bool is_collective_library(std::string_view path) {
  const auto name = file_name(path);
  return std::any_of(std::begin(kCollectiveLibraries), std::end(kCollectiveLibraries),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

std::vector<pid_t> sleeping_in_pytorch(pid_t ancestor) {
  std::vector<pid_t> found;
  auto processes = children_of(ancestor);
  for (std::size_t i = 0; i < std::min(processes.size(), kInspectedMax); ++i) {
    const pid_t pid = processes[i];
    if (is_pytorch(sleeping_code(pid))) found.push_back(pid);
    const auto children = children_of(pid);
    processes.insert(processes.end(), children.begin(), children.end());
  }
  return found;
}

}  // namespace ddprun
