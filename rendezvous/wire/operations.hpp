// The operations of the protocol: codes in both dialects and the fields of the request. Parser and
// encoder both follow this one table. The codes are the wire format: never renumber them.
#pragma once

#include "rendezvous/wire/request.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

namespace ddprun::wire {

enum class Field : std::uint8_t {
  none,
  u32,    ///< 4 bytes
  i64,    ///< 8 bytes
  key,    ///< u64 length, then that many bytes
  value,  ///< like key, with the limit for values
  keys,   ///< u64 count, then that many keys
  pairs,  ///< u64 count, then that many pairs of key and value
};

inline constexpr int kNoCode = -1;
inline constexpr std::size_t kFieldsMax = 3;

struct Operation {
  const char* name;
  int modern;  ///< code, or kNoCode if the dialect lacks the operation
  int legacy;
  std::array<Field, kFieldsMax> fields;
};

/// Not in kOperations: it is only valid as the first byte of a connection.
inline constexpr std::uint8_t kValidateCode = 0;
inline constexpr std::uint32_t kValidateMagic = 0x3C85'F7CE;

/// All operations, in the order of the alternatives of Request.
inline constexpr std::array<Operation, 19> kOperations = {{
    {"PING", 13, kNoCode, {Field::u32}},
    {"SET", 1, 0, {Field::key, Field::value}},
    {"COMPARE_SET", 2, 1, {Field::key, Field::value, Field::value}},
    {"GET", 3, 2, {Field::key}},
    {"ADD", 4, 3, {Field::key, Field::i64}},
    {"CHECK", 5, 4, {Field::keys}},
    {"WAIT", 6, 5, {Field::keys}},
    {"GETNUMKEYS", 7, 6, {}},
    {"WATCH_KEY", kNoCode, 7, {Field::key}},
    {"DELETE_KEY", 8, 8, {Field::key}},
    {"APPEND", 9, kNoCode, {Field::key, Field::value}},
    {"MULTI_GET", 10, kNoCode, {Field::keys}},
    {"MULTI_SET", 11, kNoCode, {Field::pairs}},
    {"CANCEL_WAIT", 12, kNoCode, {}},
    {"QUEUE_PUSH", 14, kNoCode, {Field::key, Field::value}},
    {"QUEUE_POP", 15, kNoCode, {Field::key}},
    {"QUEUE_LEN", 16, kNoCode, {Field::key}},
    {"LIST_KEYS", 17, kNoCode, {}},
    {"BARRIER", 18, kNoCode, {Field::key, Field::i64}},
}};
static_assert(kOperations.size() == std::variant_size_v<Request>);

}  // namespace ddprun::wire
