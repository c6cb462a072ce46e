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

/// Adds a member after the others.
void add_member(JsonValue& object, std::string key, JsonValue value);

/// Formats with an indent of two spaces and a newline at the end; values that fit are in one line.
std::string pretty_json(const JsonValue& value);

}  // namespace ddprun
