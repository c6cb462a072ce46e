#include "launcher/config/json.hpp"

#include "launcher/config/identity.hpp"
#include "tests/support/command_lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace json_test {

using namespace ddprun;
using ddprun::test::contains;

namespace {

/// Returns the only problem of a text, as "line:column path: message".
std::string problem_in(const std::string& text) {
  const auto document = parse_json(text);
  if (document.problems.empty()) return "";
  REQUIRE(document.problems.size() == 1);
  const auto& problem = document.problems.front();
  return std::to_string(problem.at.line) + ":" + std::to_string(problem.at.column) + " " +
         problem.path + ": " + problem.message;
}

std::string canonical(const std::string& text) {
  const auto document = parse_json(text);
  REQUIRE_MESSAGE(document.problems.empty(), text);
  return canonical_json(document.root);
}

std::string outline_of(const std::string& text) {
  return config_outline(parse_json(text).root);
}

}  // namespace

TEST_SUITE("json") {
  TEST_CASE("json: keys and values are parsed with line and column") {
    const std::string text = "// a comment\n{\n  \"a\": [1, \"\\u00e9\"], \"äö\": null}\n";
    const auto document = parse_json(text);
    REQUIRE(document.problems.empty());
    const auto& root = document.root;
    CHECK(root.at == TextPosition{2, 1});
    REQUIRE(root.members.size() == 2);
    const auto& array = root.members[0];
    CHECK(array.at == TextPosition{3, 3});
    CHECK(array.value.at == TextPosition{3, 8});
    CHECK(array.value.elements[1].at == TextPosition{3, 12});
    CHECK(array.value.elements[1].text == "é");
    // Columns are characters, not bytes.
    CHECK(root.members[1].at == TextPosition{3, 23});
    CHECK(root.members[1].value.at == TextPosition{3, 29});
  }

  TEST_CASE("json: values of every kind are parsed") {
    CHECK(canonical("[0, -1, 1.50, 2e+7, true, false, null, \"\", {}, []]") ==
          "[0,-1,1.50,2e+7,true,false,null,\"\",{},[]]");
    CHECK(canonical(R"("a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00")") ==
          "\"a\\\"\\\\/\\b\\f\\n\\r\\tA\xf0\x9f\x98\x80\"");
  }

  TEST_CASE("json: syntax errors are reported with position and path") {
    struct Case {
      std::string text;
      std::string expected;
    };
    const std::vector<Case> cases = {
        {"", "1:1 : expected a value, found the end of the file"},
        {"{\"a\": 1,\n}", "1:8 : a comma before the end of the object"},
        {"[1,]", "1:3 : a comma before the end of the array"},
        {"{\"a\" 1}", "1:6 a: expected ':' after the key, found 1"},
        {"{\"a\": {\"b\": x}}",
         "1:13 a.b: the word x is not a valid value; strings need double quotes"},
        {"[True]", "1:2 [0]: the word True is not a valid value; did you mean true?"},
        {"version = 1", "1:1 : not JSON: expected {"},
        {"\xef\xbb\xbf{}",
         "1:1 : expected a value, found a byte order mark; save the file without it"},
        {"{a: 1}", "1:2 : expected a key in double quotes, found a"},
        {"{'a': 1}", "1:2 : expected a key in double quotes, found '; strings need double quotes"},
        {"{\n\"a\": [1", "2:8 a: the array that begins in line 2 is not closed"},
        {"[1 2]", "1:4 : expected ',' or ']', found 2"},
        {"{} {}", "1:4 : the document has ended, but { follows"},
        {"# no\n{}", "1:1 : expected a value, found a comment that is not of the form // ..."},
        {"[01]", "1:2 [0]: 01 is not a valid JSON number"},
        {"[1.]", "1:2 [0]: 1. is not a valid JSON number"},
        {"[-]", "1:2 [0]: - is not a valid JSON number"},
        {"[\"a\nb\"]", "1:2 [0]: the string is not closed on its line"},
        {"[\"\t\"]", "1:3 [0]: the control character tab (written \\t) is not allowed in a string"},
        {"[\"\\x\"]", "1:3 [0]: unknown escape \\x; a backslash is written \\\\"},
        {"[\"\\u00g0\"]", "1:3 [0]: \\u is not followed by four hexadecimal digits"},
        {"[\"\\u0000\"]", "1:3 [0]: \\u0000 is not allowed: it would end the string"},
        {"[\"\\ud800\"]", "1:3 [0]: unpaired surrogate in a \\u escape"},
        {"[\"\xff\"]", "1:3 [0]: bytes that are not UTF-8"},
        {"[\"\xc0\xaf\"]", "1:3 [0]: bytes that are not UTF-8"},
        {"[\"\xed\xa0\x80\"]", "1:3 [0]: bytes that are not UTF-8"}};
    for (const auto& bad : cases) {
      CHECK(problem_in(bad.text) == bad.expected);
      CHECK_FALSE(parse_json(bad.text).is_whole);
    }
  }

  TEST_CASE("json: a duplicate key is reported with the line of the first one") {
    const auto document = parse_json("{\"a\": 1,\n\"b\": {\"a\": 2,\n\"a\": 3},\n\"b\": 4}");
    CHECK(document.is_whole);
    REQUIRE(document.problems.size() == 2);
    CHECK(document.problems[0].path == "b.a");
    CHECK(document.problems[0].at == TextPosition{3, 1});
    CHECK(document.problems[0].message == "the key occurs twice; first in line 2");
    CHECK(document.problems[1].path == "b");
  }

  TEST_CASE("json: size and depth and numbers of values and problems are limited") {
    CHECK(problem_in(std::string(kJsonBytesMax, ' ') + "1") ==
          "1:1 : has 1048577 bytes; the limit is 1048576");
    CHECK(parse_json(std::string(kJsonBytesMax - 1, ' ') + "1").problems.empty());
    const auto nested = [](int depth) {
      return std::string(static_cast<std::size_t>(depth), '[') +
             std::string(static_cast<std::size_t>(depth), ']');
    };
    CHECK(parse_json(nested(kJsonDepthMax + 1)).problems.empty());
    CHECK(contains(problem_in(nested(kJsonDepthMax + 2)), "is nested deeper than 16 levels"));
    CHECK(contains(problem_in(nested(500'000)), "is nested deeper than 16 levels"));
    std::string many = "[0";
    for (int i = 2; i < kJsonValuesMax; ++i) many += ",0";
    CHECK(parse_json(many + "]").problems.empty());
    CHECK(contains(problem_in(many + ",0]"), "exceeds the limit of 100000 values"));
    std::string twins = "{\"a\":0";
    for (std::size_t i = 0; i < 2 * kJsonProblemsMax; ++i) twins += ",\"a\":0";
    CHECK(parse_json(twins + "}").problems.size() == kJsonProblemsMax);
  }

  TEST_CASE("json: the canonical text is independent of key order and spaces and comments") {
    const std::string one = "{ \"b\": [1, 2], // two\n  \"a\": {\"d\": null, \"c\": \"\\u0041\"} }";
    const std::string other = "{\"a\":{\"c\":\"A\",\"d\":null},\"b\":[1,2]}";
    CHECK(canonical(one) == other);
    CHECK(canonical(other) == other);
    CHECK(canonical("[2,1]") != canonical("[1,2]"));
  }
}

TEST_SUITE("configuration identity") {
  TEST_CASE("configuration identity: the hash function is FNV-1a") {
    CHECK(config_hash("") == "cbf29ce484222325");
    CHECK(config_hash("a") == "af63dc4c8601ec8c");
    CHECK(config_hash("foobar") == "85944171f73967e8");
  }

  TEST_CASE("configuration identity: an outline contains no values or environment variables") {
    const std::string text = R"({"b": [1, "token-123", true], "a": {"environment": {"KEY": "x"},
                                 "c": null}})";
    const auto outline = outline_of(text);
    CHECK(parse_json(outline).problems.empty());
    for (const char* hidden : {"token", "123", "environment", "KEY", "true", "null"}) {
      CHECK(outline.find(hidden) == std::string::npos);
    }
    CHECK(outline.starts_with(R"({"a":{"c":)"));
    CHECK(outline.size() <=
          std::string_view(R"({"a":{"c":65535},"b":[65535,65535,65535]})").size());
    CHECK(outline_of(R"({"a":{"c":null},"b":[1,"token-123",true]})") == outline);
  }

  TEST_CASE("configuration identity: a too large outline is omitted") {
    const auto file_of = [](std::size_t count) {
      std::string text = "[1";
      for (std::size_t i = 1; i < count; ++i) text += ",1";
      return text + "]";
    };
    const auto bytes = outline_of("[1]").size() - 1;
    const auto most = (kOutlineBytesMax - 1) / bytes;
    CHECK(outline_of(file_of(most)).size() == most * bytes + 1);
    CHECK(outline_of(file_of(most + 1)).empty());
  }

  TEST_CASE("configuration identity: the path of the first difference is found") {
    struct Case {
      std::string ours;
      std::string theirs;
      std::string expected;
    };
    const std::vector<Case> cases = {
        {"{\"a\":1}", "{\"a\":1}", ""},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", ""},
        {"{\"a\":[1,{\"b\":\"x\"}]}", "{\"a\":[1,{\"b\":\"y\"}]}", "a[1].b"},
        {"{\"a\":1}", "{}", "a"},
        {"{}", "{\"a\":true}", "a"},
        {"{\"a\":[1,2]}", "{\"a\":[1]}", "a"},
        {"{\"a\":1}", "{\"a\":\"1\"}", "a"},
        {"{\"a\":{}}", "{\"a\":[]}", "a"},
        {"[]", "{}", "the whole"},
        {"{\"a b\":1}", "{\"a b\":2}", "[\"a b\"]"},
        {"{\"environment\":{\"A\":\"x\"}}", "{\"environment\":{\"A\":\"y\"}}", ""}};
    for (const auto& pair : cases) {
      CHECK(first_difference(outline_of(pair.ours), outline_of(pair.theirs)) == pair.expected);
    }
    CHECK(first_difference("{}", "{") == "the whole");
  }
}

}  // namespace json_test
