#include "trainers/tracking/event_encoding.hpp"

#include <array>
#include <bit>

namespace trainer {

namespace {

/// Field numbers of tensorboard's event.proto, summary.proto and tensor.proto.
namespace event {
constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr unsigned kStatus = 1;
constexpr std::uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr unsigned kValue = 1;
}
namespace value {
constexpr unsigned kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr unsigned kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr unsigned kType = 1, kString = 8;
constexpr std::uint64_t kTypeString = 7;
}  // namespace tensor

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // with its bits reversed
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

/// Masks a checksum as TFRecord does, since a checksum of data with checksums is weak.
std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

template <typename Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
  }
  return bytes;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7f) | 0x80);
  return bytes + static_cast<char>(number);
}

/// The wire types of protocol buffers.
enum class Wire : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string key(unsigned field, Wire wire) {
  return varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(wire));
}

std::string number_field(unsigned field, std::uint64_t number) {
  return key(field, Wire::varint) + varint(number);
}

std::string double_field(unsigned field, double number) {
  return key(field, Wire::fixed64) + little_endian(std::bit_cast<std::uint64_t>(number));
}

std::string float_field(unsigned field, float number) {
  return key(field, Wire::fixed32) + little_endian(std::bit_cast<std::uint32_t>(number));
}

std::string bytes_field(unsigned field, std::string_view bytes) {
  return key(field, Wire::bytes) + varint(bytes.size()) + std::string(bytes);
}

std::string event_head(double wall_time, std::int64_t step) {
  return double_field(event::kWallTime, wall_time) +
         number_field(event::kStep, static_cast<std::uint64_t>(step));
}

std::string table_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control = byte < ' ' || byte == 0x7f;
    if (c == '|' || c == '\\') cell += '\\';
    cell += is_control ? ' ' : c;
  }
  return cell;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  const std::string length = little_endian(std::uint64_t{bytes.size()});
  return length + little_endian(masked(crc32c(length))) + std::string(bytes) +
         little_endian(masked(crc32c(bytes)));
}

std::string version_event(double wall_time) {
  return double_field(event::kWallTime, wall_time) +
         bytes_field(event::kFileVersion, "brain.Event:2");
}

std::string restart_event(double wall_time, std::int64_t step) {
  return event_head(wall_time, step) +
         bytes_field(event::kSessionLog, number_field(session_log::kStatus, session_log::kStart));
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string values;
  for (const auto& [tag, number] : scalars) {
    values += bytes_field(summary::kValue,
                          bytes_field(value::kTag, tag) +
                              float_field(value::kSimpleValue, static_cast<float>(number)));
  }
  return event_head(wall_time, step) + bytes_field(event::kSummary, values);
}

std::string text_event(double wall_time, const std::string& tag, const std::string& text) {
  const std::string plugin = bytes_field(metadata::kPluginName, "text");
  const std::string content =
      number_field(tensor::kType, tensor::kTypeString) + bytes_field(tensor::kString, text);
  const std::string one = bytes_field(value::kTag, tag) + bytes_field(value::kTensor, content) +
                          bytes_field(value::kMetadata, bytes_field(metadata::kPluginData, plugin));
  return event_head(wall_time, 0) + bytes_field(event::kSummary, bytes_field(summary::kValue, one));
}

std::string settings_table(const std::map<std::string, std::string>& settings) {
  std::string table = "| option | value |\n| --- | --- |\n";
  for (const auto& [name, value] : settings) {
    table += "| " + table_cell(name) + " | " + table_cell(value) + " |\n";
  }
  return table;
}

}  // namespace trainer
