#include "launcher/config/json.hpp"
#include "launcher/config/json_string.hpp"
#include "rendezvous/base/text.hpp"

#include <map>
#include <utility>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

/// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view word) {
  std::size_t at = 0;
  const auto digits = [&] {
    const auto begin = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    return at - begin;
  };
  if (at < word.size() && word[at] == '-') ++at;
  const bool begins_with_zero = at < word.size() && word[at] == '0';
  const auto whole = digits();
  if (whole == 0 || (begins_with_zero && whole > 1)) return false;
  if (at < word.size() && word[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == word.size();
}

/// Reads one document. Each read_ function advances the reader beyond the text it has read, and
/// returns false after a syntax error, which ends parsing.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  JsonDocument read() {
    if (text_.size() > kJsonBytesMax) {
      fail("has " + std::to_string(text_.size()) + " bytes; the limit is " +
           std::to_string(kJsonBytesMax));
    } else if (read_value(document_.root, 0)) {
      skip_space();
      if (!at_end()) fail("the document has ended, but " + found() + " follows");
    }
    return std::move(document_);
  }

 private:
  bool at_end() const { return next_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[next_]; }

  void advance(std::size_t bytes = 1) {
    for (; bytes > 0; --bytes) {
      const char byte = text_[next_++];
      if (byte == '\n') {
        position_ = {position_.line + 1, 1};
      } else if ((byte & 0xc0) != 0x80) {  // not a continuation of a UTF-8 sequence
        ++position_.column;
      }
    }
  }

  void skip_space() {
    for (;;) {
      while (!at_end() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) {
        advance();
      }
      if (text_.substr(next_, 2) != "//") return;
      while (!at_end() && peek() != '\n') advance();
    }
  }

  bool read_value(JsonValue& value, int depth) {
    skip_space();
    value.at = position_;
    if (depth > kJsonDepthMax) {
      return fail("is nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    }
    if (++values_ > kJsonValuesMax) {
      return fail("exceeds the limit of " + std::to_string(kJsonValuesMax) + " values");
    }
    switch (peek()) {
      case '{':
        return read_object(value, depth);
      case '[':
        return read_array(value, depth);
      case '"':
        value.kind = Kind::string;
        return read_string(value.text);
      default:
        return read_word(value);
    }
  }

  bool read_object(JsonValue& value, int depth) {
    value.kind = Kind::object;
    std::map<std::string, int> lines;  // of the keys
    return read_list(value, '}', [&] {
      JsonMember member{{}, position_, {}};
      if (peek() != '"') return fail("expected a key in double quotes, found " + found());
      if (!read_string(member.key)) return false;
      skip_space();
      const Path path(*this, member_path(path_, member.key));
      if (peek() != ':') return fail("expected ':' after the key, found " + found());
      advance();
      const auto [first, is_new] = lines.emplace(member.key, member.at.line);
      if (!is_new && !fail_softly(member.at, "the key occurs twice; first in line " +
                                                 std::to_string(first->second))) {
        return false;
      }
      if (!read_value(member.value, depth + 1)) return false;
      value.members.push_back(std::move(member));
      return true;
    });
  }

  bool read_array(JsonValue& value, int depth) {
    value.kind = Kind::array;
    return read_list(value, ']', [&] {
      const Path path(*this, element_path(path_, value.elements.size()));
      JsonValue element;
      if (!read_value(element, depth + 1)) return false;
      value.elements.push_back(std::move(element));
      return true;
    });
  }

  /// Reads the contents of brackets, with commas between the items.
  template <typename ReadItem>
  bool read_list(const JsonValue& value, char closing, const ReadItem& read_item) {
    const std::string what = closing == '}' ? "the object" : "the array";
    advance();
    skip_space();
    if (peek() == closing) return advance(), true;
    for (;;) {
      if (!read_item()) return false;
      skip_space();
      if (at_end()) {
        return fail(what + " that begins in line " + std::to_string(value.at.line) +
                    " is not closed");
      }
      if (peek() == closing) return advance(), true;
      if (peek() != ',')
        return fail("expected ',' or '" + std::string(1, closing) + "', found " + found());
      const auto comma = position_;
      advance();
      skip_space();
      if (peek() == closing) return fail_at(comma, "a comma before the end of " + what);
    }
  }

  bool read_string(std::string& into) {
    const auto begin = position_;
    advance();
    while (peek() != '"') {
      if (at_end() || peek() == '\n') return fail_at(begin, "the string is not closed on its line");
      const auto character = next_character(text_.substr(next_));
      if (!character.problem.empty()) return fail(character.problem);
      into += character.text;
      advance(character.bytes);
    }
    advance();
    return true;
  }

  /// Reads a number, true, false or null.
  bool read_word(JsonValue& value) {
    if (at_end()) return fail("expected a value, found the end of the file");
    const auto begin = position_;
    const auto start = next_;
    while (is_letter(peek()) || is_digit(peek()) || peek() == '-' || peek() == '+' ||
           peek() == '.') {
      advance();
    }
    const auto word = text_.substr(start, next_ - start);
    value.text = word;
    if (word == "true" || word == "false") return value.kind = Kind::boolean, true;
    if (word == "null") return value.kind = Kind::null, true;
    if (is_json_number(word)) return value.kind = Kind::number, true;
    if (word.empty()) return fail("expected a value, found " + found());
    const auto shown = printable(word.substr(0, 40));
    if (is_letter(word[0])) {
      if (start == 0) return fail_at(begin, "not JSON: expected {");
      const auto nearest = nearest_word(word, {"true", "false", "null"});
      return fail_at(begin, "the word " + shown + " is not a valid value; " +
                                (nearest.empty() ? "strings need double quotes"
                                                 : "did you mean " + nearest + "?"));
    }
    return fail_at(begin, shown + " is not a valid JSON number");
  }

  std::string found() const {
    if (at_end()) return "the end of the file";
    if (peek() == '#' || text_.substr(next_, 2) == "/*")
      return "a comment that is not of the form // ...";
    if (peek() == '\'') return "'; strings need double quotes";
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.substr(next_).starts_with(kByteOrderMark)) {
      return "a byte order mark; save the file without it";
    }
    return printable(text_.substr(next_, next_character(text_.substr(next_)).bytes));
  }

  /// Adds a problem after which parsing continues, unless there are too many.
  bool fail_softly(TextPosition at, const std::string& message) {
    document_.problems.push_back({at, path_, message});
    document_.is_whole = document_.problems.size() < kJsonProblemsMax;
    return document_.is_whole;
  }

  bool fail(const std::string& message) { return fail_at(position_, message); }

  bool fail_at(TextPosition at, const std::string& message) {
    document_.problems.push_back({at, path_, message});
    document_.is_whole = false;
    return false;
  }

  /// Appends to the path of the current value for the lifetime of this object.
  class Path {
   public:
    Path(JsonReader& reader, std::string path)
        : reader_(reader), outer_(std::exchange(reader.path_, std::move(path))) {}
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    ~Path() { reader_.path_ = std::move(outer_); }

   private:
    JsonReader& reader_;
    std::string outer_;
  };

  const std::string_view text_;
  std::size_t next_ = 0;
  TextPosition position_;
  int values_ = 0;
  std::string path_;
  JsonDocument document_;
};

}  // namespace

JsonDocument parse_json(std::string_view text) {
  return JsonReader(text).read();
}

}  // namespace ddprun
