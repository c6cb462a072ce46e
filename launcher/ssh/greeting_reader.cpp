#include "launcher/ssh/greeting_reader.hpp"

#include "launcher/ssh/node_task.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun::ssh {

GreetingReader::Parts GreetingReader::read(std::string_view bytes) {
  if (has_failed_) return {};
  if (has_greeting_) return {.noise = {}, .output = std::string(bytes)};
  held_ += bytes;
  const auto at = find_begun(held_, kGreeting);
  Parts parts{.noise = held_.substr(0, at), .output = {}};
  held_.erase(0, at);
  has_greeting_ = held_.size() >= kGreeting.size();
  if (has_greeting_) parts.output = std::exchange(held_, {}).substr(kGreeting.size());
  noise_bytes_ += parts.noise.size();
  if (noise_bytes_ <= kNoiseBytesMax) return parts;
  has_failed_ = true;
  has_greeting_ = false;
  return {.noise = std::move(parts.noise), .output = {}};
}

}  // namespace ddprun::ssh
