// JSON text as a tree that remembers where each key and value stands, so that problems can be told
// as line and column. Stricter than most readers: a key may occur once, texts are valid UTF-8
// without NUL. In one thing it is laxer: // begins a comment that ends with the line. Pure
// functions; none throws on account of what it reads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// A thousand nodes with a dozen keys each take a tenth of these.
constexpr std::size_t kJsonBytesMax = 1 << 20;
constexpr int kJsonValuesMax = 100'000;
/// The deepest that any key of a configuration lies is five.
constexpr int kJsonDepthMax = 16;
/// Nobody reads more at once.
constexpr std::size_t kJsonProblemsMax = 50;

/// Both count from 1; a column is a character, not a byte.
struct TextPosition {
  int line = 1;
  int column = 1;

  bool operator==(const TextPosition&) const = default;
};

struct JsonMember;

struct JsonValue {
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  TextPosition at{};
  std::string text{};  ///< of a string, what it stands for; of a scalar else, as it was written
  std::vector<JsonValue> elements{};
  std::vector<JsonMember> members;  ///< in the order of the text

  bool is(Kind wanted) const { return kind == wanted; }

  /// The member with this key, or nullptr.
  const JsonMember* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  TextPosition at;  ///< of the key
  JsonValue value;
};

/// What is wrong in a text, and where: the path is like "nodes[2].name", empty for the whole.
struct TextProblem {
  TextPosition at;
  std::string path;
  std::string message;

  bool operator==(const TextProblem&) const = default;
};

struct JsonDocument {
  JsonValue root;
  std::vector<TextProblem> problems{};  ///< keys that occur twice, and at most one fault of syntax
  bool is_whole = true;                 ///< false: a fault of syntax ended the reading
};

JsonDocument parse_json(std::string_view text);

/// The path of an object's member or of an array's element.
std::string member_path(const std::string& path, std::string_view key);
std::string element_path(const std::string& path, std::size_t index);

/// "true", "the number 3", "the text \"x\"", "an array", cut short where it is long.
std::string describe_value(const JsonValue& value);

/// In double quotes, as JSON writes a text.
std::string json_quoted(std::string_view text);

/// The same document without comments and space, members sorted by their keys. Never longer than
/// the text it was read from.
std::string canonical_json(const JsonValue& value);

}  // namespace ddprun
