#include "tests/fuzz/stacks_target.hpp"

#include "launcher/report/stalled_collective.hpp"
#include "launcher/stacks/native_stack.hpp"
#include "launcher/stacks/python_answer.hpp"
#include "launcher/stacks/symbol_reader.hpp"
#include "launcher/stacks/tool_output.hpp"
#include "tests/fuzz/promise.hpp"

#include <string_view>

namespace ddprun::fuzz {

void run_stacks(std::span<const std::uint8_t> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  require(stacks_in(text).size() <= text.size() + 1, "stacks are a part of the output");
  require(python_frames_in(text).size() <= text.size() + 1, "frames are a part of the output");
  require(problem_in(text).find('\n') == std::string::npos, "a problem is one line");
  for (const auto& mapping : parse_mappings(text))
    require(!mapping.file.empty(), "a mapping is of a file");
  if (const auto stacks = named_stacks_in(text))
    require(stacks->size() < text.size(), "the text of the stacks is a part of the output");
  if (const auto answer = parse_python_answer(text)) {
    for (const auto& stalled : find_stalled_collectives({{0, answer->flights}}))
      require(!describe(stalled).front().empty(), "a stalled collective has a description");
  }
  const auto request = decode_symbol_request(text);
  if (!request) return;
  const auto again = decode_symbol_request(encode(*request));
  require(again && encode(*again) == encode(*request), "a request means one thing");
  describe_stacks(request->stacks, request->names, parse_mappings(request->memory_map));
}

}  // namespace ddprun::fuzz
