#include "rendezvous/security/seal.hpp"

#include "rendezvous/wire/bytes.hpp"

#include <utility>

namespace ddprun::security {

namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

std::string seal_of(const Key& key, std::uint64_t number, std::string_view message) {
  std::string numbered;
  wire::append_integer(numbered, number);
  numbered.append(message);
  return authenticate(key, numbered).substr(0, kSealBytes);
}

}  // namespace

std::string Sealer::seal(std::string_view message) {
  return std::string(message) + seal_of(key_, number_++, message);
}

void Unsealer::feed(std::string_view bytes) {
  held_.erase(0, std::exchange(read_bytes_, 0));
  held_.append(bytes);
}

std::optional<std::string> Unsealer::next() {
  const std::string_view rest = std::string_view(held_).substr(read_bytes_);
  if (!problem_.empty() || rest.size() < kLengthBytes) return std::nullopt;
  const auto length = wire::load_integer<std::uint32_t>(rest.data());
  if (length > bytes_max_) {
    problem_ = "sent a message of " + std::to_string(length) + " bytes (at most " +
               std::to_string(bytes_max_) + ")";
    return std::nullopt;
  }
  const std::size_t message_bytes = kLengthBytes + length;
  if (rest.size() < message_bytes + kSealBytes) return std::nullopt;
  const auto message = rest.substr(0, message_bytes);
  if (!are_equal(seal_of(key_, number_, message), rest.substr(message_bytes, kSealBytes))) {
    problem_ = "sent a message that was changed on its way, or was not its own";
    return std::nullopt;
  }
  ++number_;
  read_bytes_ += message_bytes + kSealBytes;
  return std::string(message);
}

}  // namespace ddprun::security
