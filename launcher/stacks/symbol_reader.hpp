// A small process that names the functions on the stacks of a worker. The files that it reads are
// the worker's: they may be made to harm their reader, or be on a file system that hangs. So this
// process has the worker's user, limits and a deadline, and the agent only awaits its output.
// It is ddprun itself, started under another name, as the guardian is.
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

/// The tables of PyTorch's libraries take a second.
inline constexpr std::uint64_t kSymbolCpuSecondsMax = 10;
/// Stacks of hundreds of threads; what is longer is cut off.
inline constexpr std::size_t kNamedStacksBytesMax = 256U << 10;

/// What the symbol reader is to name, on its standard input.
struct SymbolRequest {
  std::vector<control::ThreadStack> stacks;
  std::map<int, std::string> names;  ///< of threads, by id
  std::string memory_map;            ///< the text of /proc/PID/maps
};

std::string encode(const SymbolRequest& request);

/// Empty if the bytes are malformed.
std::optional<SymbolRequest> decode_symbol_request(std::string_view bytes);

/// The stacks in the output of a symbol reader. Empty if the output is not complete.
std::optional<std::string> named_stacks_in(std::string_view output);

/// The argv[0] of a symbol reader.
std::string symbol_reader_title();
bool is_symbol_reader(std::string_view name);

/// The symbol reader's main: reads a request from standard input until its end, and writes the text
/// of the stacks. Returns the exit code.
int run_symbol_reader();

}  // namespace ddprun
