#include "tests/fuzz/symbols_target.hpp"

#include "launcher/stacks/symbol_names.hpp"
#include "tests/fuzz/promise.hpp"

#include <array>
#include <string>
#include <string_view>

namespace ddprun::fuzz {

namespace {

constexpr std::uint64_t kReadBytesMax = std::uint64_t{8} << 20;

}  // namespace

void run_symbols(std::span<const std::uint8_t> input) {
  const std::string_view file(reinterpret_cast<const char*>(input.data()), input.size());
  const ReadAt read = [file](std::uint64_t offset, std::uint64_t size) {
    require(size <= kReadBytesMax, "some MiB are read at once at most");
    return offset < file.size() ? std::string(file.substr(offset, size)) : std::string();
  };
  std::array<CodeLocation, 4> places;
  for (std::size_t i = 0; i < places.size(); ++i) places[i].file_offset = 64 * i;
  name_functions(read, places);
  for (const auto& place : places)
    require(place.function.size() <= kSymbolBytesMax, "a name has a bound");
}

}  // namespace ddprun::fuzz
