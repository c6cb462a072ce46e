#include "rendezvous/store/key_values.hpp"

#include "rendezvous/wire/bytes.hpp"

namespace ddprun {

std::string* KeyValues::find(const std::string& key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.value;
}

const std::string* KeyValues::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second.value;
}

void KeyValues::add(const std::string& key, std::string value) {
  const auto added =
      entries_.emplace(key, Entry{.value = std::move(value), .place = places_.size()});
  places_.push_back(&*added.first);
  key_bytes_ += key.size();
}

std::optional<std::string> KeyValues::erase(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  places_[entry.place] = places_.back();
  places_[entry.place]->second.place = entry.place;
  places_.pop_back();
  key_bytes_ -= key.size();
  std::optional<std::string> value(std::move(entry.value));
  entries_.erase(found);
  return value;
}

std::string KeyValues::encoded_keys() const {
  std::string bytes;
  bytes.reserve(sizeof(std::int64_t) + keys_bytes());
  wire::append_integer(bytes, static_cast<std::int64_t>(size()));
  for (const auto* const entry : places_) wire::append_string(bytes, entry->first);
  return bytes;
}

}  // namespace ddprun
