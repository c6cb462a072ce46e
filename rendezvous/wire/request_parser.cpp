#include "rendezvous/wire/request_parser.hpp"

#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/limits.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::wire {

namespace {

using Parts = RequestParser::Parts;
using Codes = std::array<std::int8_t, 256>;

constexpr Codes codes_of(int Operation::*code) {
  Codes codes{};
  codes.fill(kNoCode);
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (kOperations[i].*code != kNoCode) {
      codes[static_cast<std::size_t>(kOperations[i].*code)] = static_cast<std::int8_t>(i);
    }
  }
  return codes;
}

constexpr Codes kModernCodes = codes_of(&Operation::modern);
constexpr Codes kLegacyCodes = codes_of(&Operation::legacy);

MultiSet make_multi_set(Parts& parts) {
  MultiSet set;
  set.pairs.reserve(parts.list.size() / 2);
  for (std::size_t i = 0; i + 1 < parts.list.size(); i += 2) {
    set.pairs.emplace_back(std::move(parts.list[i]), std::move(parts.list[i + 1]));
  }
  parts.list = {};  // clear() would keep the memory of a large one
  return set;
}

/// In the order of the alternatives of Request.
constexpr std::array<Request (*)(Parts&), kOperations.size()> kMakers = {
    [](Parts& p) -> Request { return Ping{static_cast<std::uint32_t>(p.number)}; },
    [](Parts& p) -> Request {
      return Set{std::move(p.strings[0]), std::move(p.strings[1])};
    },
    [](Parts& p) -> Request {
      return CompareSet{std::move(p.strings[0]), std::move(p.strings[1]), std::move(p.strings[2])};
    },
    [](Parts& p) -> Request { return Get{std::move(p.strings[0])}; },
    [](Parts& p) -> Request {
      return Add{std::move(p.strings[0]), p.number};
    },
    [](Parts& p) -> Request { return Check{std::move(p.list)}; },
    [](Parts& p) -> Request { return Wait{std::move(p.list)}; },
    [](Parts&) -> Request { return NumberOfKeys{}; },
    [](Parts& p) -> Request { return WatchKey{std::move(p.strings[0])}; },
    [](Parts& p) -> Request { return DeleteKey{std::move(p.strings[0])}; },
    [](Parts& p) -> Request {
      return Append{std::move(p.strings[0]), std::move(p.strings[1])};
    },
    [](Parts& p) -> Request { return MultiGet{std::move(p.list)}; },
    [](Parts& p) -> Request { return make_multi_set(p); },
    [](Parts&) -> Request { return CancelWait{}; },
    [](Parts& p) -> Request {
      return QueuePush{std::move(p.strings[0]), std::move(p.strings[1])};
    },
    [](Parts& p) -> Request { return QueuePop{std::move(p.strings[0])}; },
    [](Parts& p) -> Request { return QueueLength{std::move(p.strings[0])}; },
    [](Parts&) -> Request { return ListKeys{}; },
    [](Parts& p) -> Request {
      return Barrier{std::move(p.strings[0]), p.number};
    },
};

}  // namespace

std::optional<Request> RequestParser::next(std::string_view& input) {
  if (is_malformed()) return std::nullopt;
  while (true) {
    if (dialect_ == Dialect::undecided) {
      if (!read_greeting(input)) return std::nullopt;
    } else if (!operation_) {
      if (!read_code(input)) return std::nullopt;
    } else if (field_ == kFieldsMax || kOperations[*operation_].fields[field_] == Field::none) {
      return finish();
    } else {
      if (!read_field(kOperations[*operation_].fields[field_], input)) return std::nullopt;
      ++field_;
    }
  }
}

// A modern client begins with a zero byte and the magic. A legacy one whose first request is SET
// begins with a zero byte too, but then with the key's length, which cannot be as large as the
// magic.
bool RequestParser::read_greeting(std::string_view& input) {
  if (!has_zero_byte_) {
    if (!read_number(1, input)) return false;
    const auto code = load_integer<std::uint8_t>(number_.data());
    if (code != kValidateCode) {
      dialect_ = Dialect::legacy;
      return begin(code);
    }
    has_zero_byte_ = true;
  }
  if (!read_number(4, input)) return false;
  const auto word = load_integer<std::uint32_t>(number_.data());
  if (word == kValidateMagic) {
    dialect_ = Dialect::modern;
    return true;
  }
  if (word > kKeyBytesMax) return fail("begins with neither the protocol's magic nor a request");
  dialect_ = Dialect::legacy;
  number_bytes_ = 4;  // they are the low half of the key's length
  return begin(0);
}

bool RequestParser::read_code(std::string_view& input) {
  return read_number(1, input) && begin(load_integer<std::uint8_t>(number_.data()));
}

bool RequestParser::begin(std::uint8_t code) {
  const Codes& codes = dialect_ == Dialect::legacy ? kLegacyCodes : kModernCodes;
  if (codes[code] == kNoCode) {
    return fail("sent the unknown operation code " + std::to_string(code) +
                (dialect_ == Dialect::legacy ? " (not a store's client?)" : ""));
  }
  operation_ = static_cast<std::size_t>(codes[code]);
  field_ = 0;
  return true;
}

bool RequestParser::read_field(Field field, std::string_view& input) {
  switch (field) {
    case Field::none:
      return true;
    case Field::u32:
      if (!read_number(4, input)) return false;
      parts_.number = load_integer<std::uint32_t>(number_.data());
      return true;
    case Field::i64:
      if (!read_number(8, input)) return false;
      parts_.number = load_integer<std::int64_t>(number_.data());
      return true;
    case Field::key:
    case Field::value: {
      const bool is_key = field == Field::key;
      if (!read_string(parts_.strings[parts_.string_count], is_key ? kKeyBytesMax : kValueBytesMax,
                       is_key ? "key" : "value", input)) {
        return false;
      }
      ++parts_.string_count;
      return true;
    }
    case Field::keys:
      return read_list(1, input);
    case Field::pairs:
      return read_list(2, input);
  }
  return true;
}

bool RequestParser::read_list(std::size_t strings_per_item, std::string_view& input) {
  if (!list_length_) {
    if (!read_number(8, input)) return false;
    const auto count = load_integer<std::uint64_t>(number_.data());
    if (count > kKeysPerRequestMax) {
      return fail("sent " + std::string(kOperations[*operation_].name) + " of " +
                  std::to_string(count) + " keys (at most " + std::to_string(kKeysPerRequestMax) +
                  ")");
    }
    list_length_ = static_cast<std::size_t>(count) * strings_per_item;
  }
  while (parts_.list.size() < *list_length_) {
    const bool is_value = strings_per_item == 2 && parts_.list.size() % 2 == 1;
    if (!read_string(list_item_, is_value ? kValueBytesMax : kKeyBytesMax,
                     is_value ? "value" : "key", input)) {
      return false;
    }
    const std::size_t capacity = parts_.list.capacity();
    parts_.list.push_back(std::move(list_item_));
    list_item_.clear();
    held_bytes_ += (parts_.list.capacity() - capacity) * sizeof(std::string);
  }
  return true;
}

bool RequestParser::read_string(std::string& out, std::size_t bytes_max, const char* what,
                                std::string_view& input) {
  if (!length_) {
    if (!read_number(8, input)) return false;
    const auto length = load_integer<std::uint64_t>(number_.data());
    if (length > bytes_max) {
      return fail("sent " + std::string(kOperations[*operation_].name) + " with a " + what +
                  " of " + std::to_string(length) + " bytes (at most " + std::to_string(bytes_max) +
                  ")");
    }
    length_ = static_cast<std::size_t>(length);
    announced_bytes_ += *length_;
    if (announced_bytes_ > kRequestBytesMax) {
      return fail("sent " + std::string(kOperations[*operation_].name) + " of more than " +
                  std::to_string(kRequestBytesMax) + " bytes");
    }
  }
  const std::size_t taken = std::min(*length_ - out.size(), input.size());
  const std::size_t capacity = out.capacity();
  out.append(input.substr(0, taken));
  input.remove_prefix(taken);
  held_bytes_ += out.capacity() - capacity;
  if (out.size() < *length_) return false;
  length_.reset();
  return true;
}

bool RequestParser::read_number(std::size_t bytes, std::string_view& input) {
  const std::size_t taken = std::min(bytes - number_bytes_, input.size());
  std::copy_n(input.data(), taken, number_.data() + number_bytes_);
  input.remove_prefix(taken);
  number_bytes_ += taken;
  if (number_bytes_ < bytes) return false;
  number_bytes_ = 0;
  return true;
}

bool RequestParser::fail(std::string problem) {
  problem_ = std::move(problem);
  // Discard the bytes received so far.
  parts_ = {};
  list_item_ = {};
  held_bytes_ = 0;
  return false;
}

Request RequestParser::finish() {
  Request request = kMakers[*operation_](parts_);
  operation_.reset();
  list_length_.reset();
  for (auto& string : parts_.strings) string.clear();
  parts_.string_count = 0;
  parts_.list.clear();
  announced_bytes_ = 0;
  finished_bytes_ = std::exchange(held_bytes_, 0);
  return request;
}

}  // namespace ddprun::wire
