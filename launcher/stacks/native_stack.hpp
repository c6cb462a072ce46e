// From addresses in a process to lines that people read: which file is mapped there, which function
// of it. Pure but for describe_named_stacks(), which is for the symbol reader (symbol_reader.hpp).
#pragma once

#include "rendezvous/control/thread_stack.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A piece of a file in a process' memory.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  ///< of `begin`
  std::string file;               ///< "[vdso]" and its like for what is no file

  bool operator==(const Mapping&) const = default;
};

/// The text of /proc/PID/maps; lines that are malformed or belong to no file are left out.
std::vector<Mapping> parse_mappings(std::string_view maps_text);

/// A line for each frame of each thread, the threads by id with their names; of functions the
/// offset in their files. `names` may lack some.
std::string describe_stacks(const std::vector<control::ThreadStack>& stacks,
                            const std::map<int, std::string>& names,
                            const std::vector<Mapping>& mappings);

/// The same with the names of functions. Reads the mapped files, which may hang, and blocks while a
/// child process reads names (readable_names.hpp).
std::string describe_named_stacks(const std::vector<control::ThreadStack>& stacks,
                                  const std::map<int, std::string>& names,
                                  const std::vector<Mapping>& mappings);

}  // namespace ddprun
