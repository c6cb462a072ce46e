// Builds and formats JSON documents. Pure.
#pragma once

#include "launcher/config/json.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

JsonValue json_text_value(std::string text);
JsonValue json_number(const std::string& digits);
JsonValue json_boolean(bool is_true);
JsonValue json_array(std::vector<JsonValue> elements);
JsonValue json_texts(const std::vector<std::string>& texts);
JsonValue json_object(std::vector<std::pair<std::string, JsonValue>> members);

/// Appends a member.
void add_member(JsonValue& object, std::string key, JsonValue value);

/// Formats with two spaces of indentation and a final newline. Puts values that fit on one line.
std::string pretty_json(const JsonValue& value);

}  // namespace ddprun
