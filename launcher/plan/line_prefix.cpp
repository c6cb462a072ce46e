#include "launcher/plan/line_prefix.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun {

namespace {

std::string value_of(const PrefixPiece& piece, const PrefixValues& values) {
  switch (piece.field) {
    case PrefixField::none:
      return piece.text;
    case PrefixField::role_name:
      return std::string(values.role_name);
    case PrefixField::local_rank:
      return std::to_string(values.local_rank);
    case PrefixField::rank:
      return std::to_string(values.rank);
    case PrefixField::hostname:
      return std::string(values.hostname);
    case PrefixField::node_rank:
      return std::to_string(values.node_rank);
    case PrefixField::attempt:
      return std::to_string(values.attempt);
    case PrefixField::stream:
      return std::string(values.stream);
    case PrefixField::time:
      break;
  }
  return "";
}

}  // namespace

int columns_of(const LinePrefix& prefix) {
  constexpr std::ptrdiff_t kTimeColumns = 23;  // 2026-11-21 05:42:34.657
  auto columns = kTimeColumns * (static_cast<std::ptrdiff_t>(prefix.parts.size()) - 1);
  for (const auto& part : prefix.parts) {
    columns += std::count_if(part.begin(), part.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not inside a UTF-8 character
    });
  }
  return static_cast<int>(columns);
}

LinePrefix fill_in(const PrefixTemplate& prefix, const PrefixValues& values) {
  LinePrefix result;
  for (const auto& piece : prefix.pieces) {
    if (piece.field == PrefixField::time) {
      result.parts.emplace_back();
    } else {
      result.parts.back() += value_of(piece, values);
    }
  }
  return result;
}

}  // namespace ddprun
