// JSON as a tree with the position of each key and value, for messages with line and column.
// Stricter than the standard: keys are unique, and texts are valid UTF-8 without NUL. Extension:
// comments from // to the end of the line. Pure functions; invalid input does not throw.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Limits. They allow ten times the size of a file with a thousand nodes and a dozen keys each.
constexpr std::size_t kJsonBytesMax = 1 << 20;
constexpr int kJsonValuesMax = 100'000;
/// Maximum nesting depth. Configurations have a depth of at most five.
constexpr int kJsonDepthMax = 16;
/// Maximum number of problems in a report.
constexpr std::size_t kJsonProblemsMax = 50;

/// Line and column, both from 1. Columns count characters, not bytes.
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
  std::string text{};  ///< decoded string, or source text of other scalars
  std::vector<JsonValue> elements{};
  std::vector<JsonMember> members;  ///< in source order

  bool is(Kind wanted) const { return kind == wanted; }

  /// Returns the member with this key, or nullptr.
  const JsonMember* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  TextPosition at;  ///< position of the key
  JsonValue value;
};

/// A problem in a text with its position and path, such as "nodes[2].name". The path is empty for
/// the whole document.
struct TextProblem {
  TextPosition at;
  std::string path;
  std::string message;

  bool operator==(const TextProblem&) const = default;
};

struct JsonDocument {
  JsonValue root;
  std::vector<TextProblem> problems{};  ///< duplicate keys, and at most one syntax error
  bool is_whole = true;                 ///< false if a syntax error ended parsing
};

JsonDocument parse_json(std::string_view text);

/// Returns the path of an object's member or of an array's element.
std::string member_path(const std::string& path, std::string_view key);
std::string element_path(const std::string& path, std::size_t index);

/// Returns text such as "true", "the number 3" or "an array". Shortens long values.
std::string describe_value(const JsonValue& value);

/// Returns the text as a JSON string with its quotes.
std::string json_quoted(std::string_view text);

/// Returns the document without comments and spaces, with members sorted by key. The result is
/// never longer than the original text.
std::string canonical_json(const JsonValue& value);

}  // namespace ddprun
