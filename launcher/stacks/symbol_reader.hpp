// A small process that names the functions on the stacks of a worker. The files that it reads
// belong to the worker: they may be malicious, or on a file system that hangs. So this process runs
// as the worker's user with limits and a deadline, and the agent only awaits its output. It is
// ddprun itself, started under another name, like the guardian.
#pragma once

#include "rendezvous/control/thread_stack.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Maximum CPU time. The tables of PyTorch's libraries take a second.
inline constexpr std::uint64_t kSymbolCpuSecondsMax = 10;
/// Maximum bytes of the output: stacks of hundreds of threads. Longer output is cut.
inline constexpr std::size_t kNamedStacksBytesMax = 256U << 10;

/// Request to the symbol reader, sent to its standard input.
struct SymbolRequest {
  std::vector<control::ThreadStack> stacks;
  std::map<int, std::string> names;  ///< names of threads by ID
  std::string memory_map;            ///< the text of /proc/PID/maps
};

std::string encode(const SymbolRequest& request);

/// Returns nullopt if the bytes are malformed.
std::optional<SymbolRequest> decode_symbol_request(std::string_view bytes);

/// Returns the stacks in the output of a symbol reader, or nullopt if the output is incomplete.
std::optional<std::string> named_stacks_in(std::string_view output);

/// Returns the argv[0] of a symbol reader.
std::string symbol_reader_title();
bool is_symbol_reader(std::string_view name);

/// Main function of the symbol reader: reads a request from standard input until its end, and
/// writes the text of the stacks. Returns the exit code.
int run_symbol_reader();

}  // namespace ddprun
