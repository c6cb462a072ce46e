#include "rendezvous/membership/codec.hpp"

#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/wire/bytes.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <filesystem>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ddprun::membership {

namespace {

using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;
using control::RankFlights;
using control::WorkerFlights;

template <typename Wanted, typename T>
constexpr bool is(const T*) {
  return std::same_as<std::remove_const_t<T>, Wanted>;
}

/// Fields of each part of a message in protocol order, shared by the encoder and the decoder.
/// Increment kProtocolVersion on changes.
template <typename M>
auto part_fields(M& m) {
  if constexpr (is<ProbeAddress>(static_cast<M*>(nullptr))) {
    return std::tie(m.host, m.port);
  } else if constexpr (is<RankActivity>(static_cast<M*>(nullptr))) {
    return std::tie(m.wait, m.work_share, m.are_all_waiting);
  } else if constexpr (is<Failure>(static_cast<M*>(nullptr))) {
    return std::tie(m.rank, m.is_victim, m.ran_seconds, m.description, m.node, m.exit);
  } else if constexpr (is<WorkerExited>(static_cast<M*>(nullptr))) {
    return std::tie(m.attempt, m.rank, m.local_rank, m.pid, m.node, m.exit_code, m.signal,
                    m.was_stopped, m.was_forwarded, m.is_out_of_memory, m.peak_memory_bytes,
                    m.ran_seconds, m.ended_at, m.core_file, m.error_message, m.error_traceback,
                    m.error_code, m.error_time, m.last_lines, m.hint, m.log_folder, m.ended_before,
                    m.hung, m.was_started, m.still_running);
  } else if constexpr (is<Flight>(static_cast<M*>(nullptr))) {
    return std::tie(m.number, m.is_message, m.call, m.bytes, m.state, m.entered_ago, m.ended_ago);
  } else if constexpr (is<GroupFlightRecord>(static_cast<M*>(nullptr))) {
    return std::tie(m.name, m.rank, m.size, m.members, m.state, m.entered, m.flights);
  } else if constexpr (is<WorkerFlights>(static_cast<M*>(nullptr))) {
    return std::tie(m.groups, m.unrecorded_groups, m.damage);
  } else if constexpr (is<RankFlights>(static_cast<M*>(nullptr))) {
    return std::tie(m.rank, m.worker);
  } else if constexpr (is<MissingRank>(static_cast<M*>(nullptr))) {
    return std::tie(m.rank, m.doing);
  } else if constexpr (is<StalledConnection>(static_cast<M*>(nullptr))) {
    return std::tie(m.rank, m.peer, m.silence, m.retransmissions);
  } else if constexpr (is<StacksTaken>(static_cast<M*>(nullptr))) {
    return std::tie(m.attempt, m.rank, m.same, m.pid, m.reason, m.means, m.problems, m.lines,
                    m.was_ended);
  } else if constexpr (is<NodePlace>(static_cast<M*>(nullptr))) {
    return std::tie(m.name, m.role, m.local_world_size, m.address, m.is_host);
  } else {
    return std::tie(m.result, m.scope, m.rounds, m.reason, m.signal, m.failures,
                    m.flights);  // RunOutcome
  }
}

/// The same of each message and its parts.
template <typename M>
auto fields(M& m) {
  if constexpr (is<Join>(static_cast<M*>(nullptr))) {
    return std::tie(m.version, m.run_id, m.name, m.instance, m.connection, m.node_rank,
                    m.local_world_size, m.role, m.nodes_min, m.nodes_max, m.max_restarts, m.is_host,
                    m.config_hash, m.command, m.last_round, m.restarts_used, m.since_round,
                    m.probe);
  } else if constexpr (is<Probe>(static_cast<M*>(nullptr))) {
    return std::tie(m.number, m.timeout, m.peers);
  } else if constexpr (is<Probed>(static_cast<M*>(nullptr))) {
    return std::tie(m.number, m.unreachable);
  } else if constexpr (is<Heartbeat>(static_cast<M*>(nullptr))) {
    return std::tie(m.number, m.round, m.activity);
  } else if constexpr (is<WorkersFailing>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.reason, m.were_asked);
  } else if constexpr (is<StopWorkers>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.reason, m.is_orderly, m.signal);
  } else if constexpr (is<WorkersEnded>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.have_succeeded, m.not_started, m.failures, m.early_exits, m.flights,
                    m.were_asked, m.no_restart);
  } else if constexpr (is<HangNotice>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.node, m.time, m.has_ended, m.is_certain, m.ends_round, m.ranks,
                    m.connections);
  } else if constexpr (is<SlowRankNotice>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.node, m.rank, m.is_slow, m.factor, m.seconds, m.doing, m.peer);
  } else if constexpr (is<StacksNotice>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.node, m.stacks);
  } else if constexpr (is<Leave>(static_cast<M*>(nullptr))) {
    return std::tie(m.reason, m.signal);
  } else if constexpr (is<Refused>(static_cast<M*>(nullptr))) {
    return std::tie(m.reason, m.config);
  } else if constexpr (is<NextRound>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.reason, m.delay);
  } else if constexpr (is<Waiting>(static_cast<M*>(nullptr))) {
    return std::tie(m.text, m.is_warning);
  } else if constexpr (is<Welcome>(static_cast<M*>(nullptr))) {
    return std::tie(m.lease, m.warning, m.run_nonce);
  } else if constexpr (is<RoundFormed>(static_cast<M*>(nullptr))) {
    return std::tie(m.round, m.restarts_used, m.nodes, m.node_rank, m.store_port);
  } else if constexpr (is<Finish>(static_cast<M*>(nullptr))) {
    return std::tie(m.outcome);
  } else if constexpr (is<HeartbeatAnswer>(static_cast<M*>(nullptr))) {
    return std::tie(m.number, m.round, m.activity);
  } else {
    return part_fields(m);
  }
}

/// A hundred years: far from where sums of times overflow.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365 * 100);

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(bool value) { wire::append_integer(out_, std::uint8_t{value}); }
  void put(double value) { wire::append_integer(out_, std::bit_cast<std::uint64_t>(value)); }
  void put(std::chrono::milliseconds value) {
    wire::append_integer(out_, std::int64_t{value.count()});
  }
  void put(std::chrono::nanoseconds value) {
    wire::append_integer(out_, std::int64_t{value.count()});
  }
  void put(std::chrono::system_clock::time_point value) {
    const auto since = std::chrono::floor<std::chrono::milliseconds>(value.time_since_epoch());
    put(std::clamp(since, std::chrono::milliseconds(0), kLongest));
  }
  void put(const std::filesystem::path& path) { put(path.string()); }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void put(Enum value) { wire::append_integer(out_, static_cast<std::uint8_t>(value)); }
  template <std::integral Integer>
  void put(Integer value) {
    wire::append_integer(out_, value);
  }
  template <typename Item>
  void put(const std::optional<Item>& item) {
    put(item.has_value());
    if (item) put(*item);
  }
  template <typename Item>
  void put(const std::vector<Item>& items) {
    put(static_cast<std::uint32_t>(items.size()));
    for (const auto& item : items) put(item);
  }
  template <typename Fields>
  requires std::is_class_v<Fields>
  void put(const Fields& value) {
    std::apply([this](const auto&... field) { (this->put(field), ...); }, fields(value));
  }

 private:
  std::string& out_;
};

// Checks of values that fit their fields but are invalid or inconsistent.

template <typename Any>
bool is_sound(const Any&) {
  return true;
}
bool is_sound(const RankActivity& activity) {
  return activity.work_share == -1 ||
         (activity.work_share >= 1 && activity.work_share <= kWholeWorkShare);
}
bool is_sound(const Leave& leave) {
  return leave.signal >= 0 && leave.signal <= kSignalMax;
}
bool is_sound(const StopWorkers& stop) {
  return stop.signal >= 0 && stop.signal <= kSignalMax;
}
bool is_sound(const RunOutcome& outcome) {
  return outcome.signal >= 0 && outcome.signal <= kSignalMax && outcome.rounds >= 0;
}
bool is_sound(const Failure& failure) {
  return failure.rank >= 0 && failure.ran_seconds >= 0 && std::isfinite(failure.ran_seconds);
}
bool is_sound(const WorkerExited& exit) {
  return exit.rank >= 0 && exit.signal >= 0 && exit.signal <= kSignalMax &&
         std::isfinite(exit.ran_seconds);
}
bool is_sound(const Flight& flight) {
  return flight.ended_ago <= flight.entered_ago;
}
bool is_sound(const GroupFlightRecord& group) {
  return group.rank >= 0 && group.rank < group.size;
}
bool is_sound(const WorkerFlights& worker) {
  return worker.unrecorded_groups >= 0;
}
bool is_sound(const RankFlights& flights) {
  return flights.rank >= 0;
}
bool is_sound(const MissingRank& missing) {
  return missing.rank >= 0;
}
bool is_sound(const StalledConnection& connection) {
  return connection.rank >= 0 && connection.retransmissions >= 0;
}
bool is_sound(const SlowRankNotice& slow) {
  return slow.rank >= 0 && std::isfinite(slow.factor) && std::isfinite(slow.seconds);
}
bool is_sound(const StacksTaken& taken) {
  return taken.rank >= 0 &&
         std::all_of(taken.same.begin(), taken.same.end(), [](int rank) { return rank >= 0; });
}
bool is_sound(const ProbeAddress& address) {
  return address.host.size() <= kAddressBytesMax;
}
bool is_sound(const Probe& probe) {
  return probe.peers.size() <= kProbedNodesMax;
}
bool is_sound(const Probed& probed) {
  return probed.unreachable.size() <= kProbedNodesMax;
}
bool is_sound(const NodePlace& node) {
  return node.local_world_size >= 1 && node.local_world_size <= kLocalWorkersMax &&
         node.address.size() <= kAddressBytesMax;
}
bool is_sound(const NextRound& next) {
  return next.round >= 0;
}
bool is_sound(const RoundFormed& formed) {
  return formed.round >= 0 && formed.restarts_used >= 0 && formed.node_rank >= 0 &&
         std::cmp_less(formed.node_rank, formed.nodes.size());
}

/// Each function returns false if the input is truncated or invalid.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool is_at_end() const { return rest_.empty(); }

  bool get(std::string& text) {
    std::uint32_t length = 0;
    if (!get(length) || length > rest_.size()) return false;
    text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }
  bool get(bool& value) {
    std::uint8_t byte = 0;
    if (!get(byte) || byte > 1) return false;
    value = byte == 1;
    return true;
  }
  bool get(double& value) {
    std::uint64_t bits = 0;
    if (!get(bits)) return false;
    value = std::bit_cast<double>(bits);
    return true;
  }
  bool get(std::chrono::milliseconds& value) {
    std::int64_t count = 0;
    if (!get(count) || count < 0 || count > kLongest.count()) return false;
    value = std::chrono::milliseconds(count);
    return true;
  }
  bool get(std::chrono::nanoseconds& value) {
    std::int64_t count = 0;
    if (!get(count) || count < 0) return false;
    value = std::chrono::nanoseconds(count);
    return true;
  }
  bool get(std::chrono::system_clock::time_point& value) {
    std::chrono::milliseconds since{};
    if (!get(since)) return false;
    value = std::chrono::system_clock::time_point(since);
    return true;
  }
  bool get(std::filesystem::path& path) {
    std::string text;
    if (!get(text)) return false;
    path = text;
    return true;
  }
  bool get(RunResult& value) { return get_enum(value, kLastSharedResult); }
  bool get(Errc& value) { return get_enum(value, Errc::internal); }
  bool get(FlightState& value) { return get_enum(value, FlightState::failed); }
  bool get(GroupState& value) { return get_enum(value, GroupState::left); }
  bool get(OutcomeScope& value) { return get_enum(value, OutcomeScope::node); }
  template <typename Item>
  bool get(std::optional<Item>& item) {
    bool has_value = false;
    if (!get(has_value)) return false;
    if (!has_value) return true;
    return get(item.emplace());
  }
  template <std::integral Integer>
  bool get(Integer& value) {
    if (rest_.size() < sizeof(Integer)) return false;
    value = wire::load_integer<Integer>(rest_.data());
    rest_.remove_prefix(sizeof(Integer));
    return true;
  }
  template <typename Item>
  bool get(std::vector<Item>& items) {
    std::uint32_t count = 0;
    if (!get(count)) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!get(items.emplace_back())) return false;
    }
    return true;
  }
  template <typename Fields>
  requires std::is_class_v<Fields>
  bool get(Fields& value) {
    return std::apply([this](auto&... field) { return (this->get(field) && ...); },
                      fields(value)) &&
           is_sound(value);
  }

 private:
  template <typename Enum>
  bool get_enum(Enum& value, Enum last) {
    std::uint8_t byte = 0;
    if (!get(byte) || byte > static_cast<std::uint8_t>(last)) return false;
    value = static_cast<Enum>(byte);
    return true;
  }

  std::string_view rest_;
};

template <typename Variant>
void append(std::string& out, const Variant& message) {
  const auto begin = out.size();
  wire::append_integer(out, std::uint32_t{0});  // length, filled in at the end
  wire::append_integer(out, static_cast<std::uint8_t>(message.index()));
  std::visit([&out](const auto& value) { Writer(out).put(value); }, message);
  std::string length;
  wire::append_integer(length,
                       static_cast<std::uint32_t>(out.size() - begin - sizeof(std::uint32_t)));
  out.replace(begin, length.size(), length);
}

template <typename Value>
std::size_t bytes_of(const Value& value) {
  std::string bytes;
  Writer(bytes).put(value);
  return bytes.size();
}

/// The alternative with this index, read from `reader`.
template <typename Variant, std::size_t kIndex = 0>
std::optional<Variant> read_alternative(std::size_t index, Reader& reader) {
  if constexpr (kIndex < std::variant_size_v<Variant>) {
    if (index != kIndex) return read_alternative<Variant, kIndex + 1>(index, reader);
    std::variant_alternative_t<kIndex, Variant> value;
    if (!reader.get(value) || !reader.is_at_end()) return std::nullopt;
    return value;
  } else {
    return std::nullopt;
  }
}

}  // namespace

std::string greeting() {
  return std::string(kGreeting) + std::to_string(kProtocolVersion) + "\n";
}

std::optional<Greeting> read_greeting(std::string_view bytes) {
  constexpr std::size_t kDigitsMax = 9;
  const Greeting malformed{.is_malformed = true};
  const auto begin = bytes.substr(0, kGreeting.size());
  if (!kGreeting.starts_with(begin)) return malformed;
  bytes.remove_prefix(begin.size());
  const auto end = bytes.find('\n');
  const auto digits = bytes.substr(0, std::min(end, kDigitsMax + 1));
  const bool are_digits = std::all_of(digits.begin(), digits.end(),
                                      [](char digit) { return digit >= '0' && digit <= '9'; });
  if (!are_digits || digits.size() > kDigitsMax) return malformed;
  if (end == std::string_view::npos) return std::nullopt;
  if (digits.empty()) return malformed;
  Greeting greeting{.bytes = begin.size() + end + 1};
  std::from_chars(digits.data(), digits.data() + digits.size(), greeting.version);
  return greeting;
}

std::size_t encoded_bytes(const WorkerExited& exit) {
  return bytes_of(exit);
}

std::size_t encoded_bytes(const RankFlights& flights) {
  return bytes_of(flights);
}

std::size_t encoded_bytes(const StacksTaken& taken) {
  return bytes_of(taken);
}

void append_message(std::string& out, const NodeMessage& message) {
  append(out, message);
}

void append_message(std::string& out, const CoordinatorMessage& message) {
  append(out, message);
}

template <typename Message>
std::optional<Message> MessageReader<Message>::next() {
  const std::string_view rest = std::string_view(held_).substr(read_bytes_);
  if (is_malformed() || rest.size() < sizeof(std::uint32_t)) return std::nullopt;
  const auto length = wire::load_integer<std::uint32_t>(rest.data());
  if (length == 0 || length > bytes_max_) {
    problem_ = "sent a message of " + std::to_string(length) + " bytes (at most " +
               std::to_string(bytes_max_) + ")";
    return std::nullopt;
  }
  const std::size_t whole = sizeof(std::uint32_t) + length;
  if (rest.size() < whole) return std::nullopt;
  const std::string_view bytes = rest.substr(sizeof(std::uint32_t), length);
  Reader reader(bytes.substr(1));
  auto message = read_alternative<Message>(static_cast<unsigned char>(bytes.front()), reader);
  if (!message) problem_ = "sent bytes that are not an agent's message";
  read_bytes_ += whole;
  return message;
}

template class MessageReader<NodeMessage>;
template class MessageReader<CoordinatorMessage>;

}  // namespace ddprun::membership
