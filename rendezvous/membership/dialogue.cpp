#include "rendezvous/membership/dialogue.hpp"

#include "rendezvous/membership/foreign_peer.hpp"
#include "rendezvous/membership/join_checks.hpp"
#include "rendezvous/membership/settings.hpp"
#include "rendezvous/wire/bytes.hpp"

#include <variant>

namespace ddprun::membership {

namespace {

// Modes, which follow the greeting.
constexpr char kOpenMode = 0;
constexpr char kSecretMode = 1;

/// Sent instead of a message type.
constexpr std::uint8_t kChallengeType = 255;
static_assert(std::variant_size_v<CoordinatorMessage> < kChallengeType);

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kHeadBytes = kLengthBytes + 1;

std::string head_of_challenge() {
  std::string head;
  wire::append_integer(head, std::uint32_t{1 + security::kChallengeBytes});
  wire::append_integer(head, kChallengeType);
  return head;
}

}  // namespace

AgentDialogue::AgentDialogue(const security::Secret* secret, const std::string& run_id,
                             std::string_view nonce)
    : outgoing_(greeting() + (secret != nullptr ? kSecretMode : kOpenMode)) {
  if (secret == nullptr) return;
  handshake_.emplace(*secret, outgoing_, run_id, nonce);
  outgoing_ += handshake_->hello();
}

void AgentDialogue::send(const NodeMessage& message) {
  if (handshake_) {
    pending_.push_back(message);
  } else {
    outgoing_ += stream_.written(message);
  }
}

void AgentDialogue::feed(std::string_view bytes) {
  first_bytes_ += bytes.substr(0, kFirstBytesMax - first_bytes_.size());
  if (!handshake_) return stream_.feed(bytes);
  opening_ += bytes;
}

std::string AgentDialogue::problem() const {
  const auto& problem = problem_.empty() ? stream_.problem() : problem_;
  if (problem.empty()) return {};
  const auto foreign = describe_foreign(first_bytes_);
  return foreign.empty() ? problem : foreign;
}

std::optional<CoordinatorMessage> AgentDialogue::next() {
  if (!problem_.empty()) return std::nullopt;
  if (!handshake_) return stream_.next();
  const std::string head = head_of_challenge();
  if (opening_.size() < head.size()) return std::nullopt;
  if (!opening_.starts_with(head)) return next_unproven();
  if (opening_.size() < head.size() + security::kChallengeBytes) return std::nullopt;
  return take_challenge();
}

std::optional<CoordinatorMessage> AgentDialogue::take_challenge() {
  const std::string_view opening = opening_;
  const auto challenge = opening.substr(kHeadBytes, security::kChallengeBytes);
  const bool is_known = handshake_->is_proof(challenge);
  outgoing_ += handshake_->answer();
  if (!is_known) {
    problem_ = "does not know this run's secret";
    return Refused{
        "the rendezvous does not know this run's secret; the file of --secret_file must "
        "be the same on all nodes"};
  }
  auto keys = handshake_->keys();
  handshake_.reset();
  stream_.seal(std::move(keys.from_agent), std::move(keys.from_coordinator));
  for (const auto& message : std::exchange(pending_, {})) outgoing_ += stream_.written(message);
  stream_.feed(opening.substr(kHeadBytes + security::kChallengeBytes));
  opening_ = {};
  return stream_.next();
}

/// An unauthenticated peer may send a refusal.
std::optional<CoordinatorMessage> AgentDialogue::next_unproven() {
  MessageReader<CoordinatorMessage> reader(kFirstMessageBytesMax);
  reader.feed(opening_);
  auto message = reader.next();
  problem_ = reader.problem();
  if (!message) return std::nullopt;
  problem_ = "answered without a proof that it knows this run's secret";
  if (!std::holds_alternative<Refused>(*message)) return std::nullopt;
  return message;
}

CoordinatorDialogue::CoordinatorDialogue(const security::Secret* secret, std::string_view nonce)
    : secret_(secret), nonce_(nonce) {}

void CoordinatorDialogue::feed(std::string_view bytes) {
  if (stage_ == Stage::ended) return;
  if (stage_ == Stage::messages) return stream_.feed(bytes);
  opening_ += bytes;
  while (take_part()) continue;
  if (stage_ == Stage::messages) stream_.feed(std::exchange(opening_, {}));
}

bool CoordinatorDialogue::take_part() {
  switch (stage_) {
    case Stage::greeting:
      return take_greeting();
    case Stage::mode:
      return take_mode();
    case Stage::hello:
      return take_hello();
    case Stage::proof:
      return take_proof();
    case Stage::messages:
    case Stage::ended:
      break;
  }
  return false;
}

bool CoordinatorDialogue::take_greeting() {
  const auto greeting = read_greeting(opening_);
  if (!greeting) return false;
  prologue_ = cut(greeting->bytes);
  stage_ = Stage::mode;
  if (greeting->is_malformed) {
    // `opening_` is unchanged, because cut() consumes nothing from a malformed greeting.
    end(is_store_client(opening_) ? std::string("is a client of PyTorch's store; ") + kNoTorchrun
                                  : "did not greet as an agent does");
  } else if (const auto objection = objection_to_version(greeting->version)) {
    refuse(*objection);
  }
  return true;
}

bool CoordinatorDialogue::take_mode() {
  if (opening_.empty()) return false;
  prologue_ += cut(1);
  const char mode = prologue_.back();
  if (mode != kOpenMode && mode != kSecretMode) {
    end("did not greet as an agent does");
  } else if ((mode == kSecretMode) != (secret_ != nullptr)) {
    refuse(secret_ != nullptr
               ? "the run has a secret, the node that joins has none (--secret_file)"
               : "the node that joins has a secret (--secret_file), the run has none");
  } else if (secret_ != nullptr) {
    stage_ = Stage::hello;
  } else {
    stage_ = Stage::messages;
  }
  return true;
}

bool CoordinatorDialogue::take_hello() {
  if (opening_.size() < security::kHelloBytes) return false;
  handshake_.emplace(*secret_, prologue_, nonce_);
  const auto hello = cut(security::kHelloBytes);
  outgoing_ += head_of_challenge() + handshake_->challenge(hello);
  stage_ = Stage::proof;
  return true;
}

bool CoordinatorDialogue::take_proof() {
  if (opening_.size() < security::kProofBytes) return false;
  if (handshake_->is_proof(cut(security::kProofBytes))) {
    auto keys = handshake_->keys();
    stream_.seal(std::move(keys.from_coordinator), std::move(keys.from_agent));
    stage_ = Stage::messages;
  } else {
    // The agent has detected this itself.
    refusal_ = "it does not know this run's secret (--secret_file)";
    end("does not know this run's secret");
  }
  handshake_.reset();
  return true;
}

std::string CoordinatorDialogue::cut(std::size_t bytes) {
  auto part = opening_.substr(0, bytes);
  opening_.erase(0, bytes);
  return part;
}

/// Refused has the same encoding in all versions and is never sealed.
void CoordinatorDialogue::refuse(const std::string& reason) {
  append_message(outgoing_, Refused{reason});
  refusal_ = reason;
  end("was refused");
}

void CoordinatorDialogue::end(const std::string& problem) {
  problem_ = problem;
  opening_ = {};
  stage_ = Stage::ended;
}

}  // namespace ddprun::membership
