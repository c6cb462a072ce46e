// Converts addresses in a process to readable lines with file and function. Pure except for
// describe_named_stacks(), which is for the symbol reader (symbol_reader.hpp).
#pragma once

#include "rendezvous/control/thread_stack.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A mapped part of a file in a process' memory.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  ///< offset of `begin` in the file
  std::string file;               ///< "[vdso]" or similar if it is not a file

  bool operator==(const Mapping&) const = default;
};

/// Parses the text of /proc/PID/maps. Omits lines that are malformed or without file.
std::vector<Mapping> parse_mappings(std::string_view maps_text);

/// Returns a line for each frame of each thread, threads in order of their IDs with their names;
/// functions as offsets in their files. `names` may lack some threads.
std::string describe_stacks(const std::vector<control::ThreadStack>& stacks,
                            const std::map<int, std::string>& names,
                            const std::vector<Mapping>& mappings);

/// Returns the same with the names of functions. Reads the mapped files, which may hang, and blocks
/// while a child process demangles names (readable_names.hpp).
std::string describe_named_stacks(const std::vector<control::ThreadStack>& stacks,
                                  const std::map<int, std::string>& names,
                                  const std::vector<Mapping>& mappings);

}  // namespace ddprun
