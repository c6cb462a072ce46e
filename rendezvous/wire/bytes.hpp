// Integers and strings in the protocol's byte order, which is little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ddprun::wire {

template <typename Integer>
void append_integer(std::string& out, Integer value) {
  const auto bits = static_cast<std::make_unsigned_t<Integer>>(value);
  char bytes[sizeof(Integer)];
  for (std::size_t i = 0; i < sizeof(Integer); ++i) bytes[i] = static_cast<char>(bits >> (8 * i));
  out.append(bytes, sizeof bytes);
}

/// Appends the length and the bytes.
inline void append_string(std::string& out, std::string_view bytes) {
  append_integer(out, std::uint64_t{bytes.size()});
  out.append(bytes);
}

/// Returns the integer at `bytes`. REQUIRES: sizeof(Integer) bytes are readable.
template <typename Integer>
Integer load_integer(const char* bytes) {
  std::make_unsigned_t<Integer> value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value = static_cast<std::make_unsigned_t<Integer>>(
        value | (static_cast<std::make_unsigned_t<Integer>>(byte) << (8 * i)));
  }
  return static_cast<Integer>(value);
}

}  // namespace ddprun::wire
