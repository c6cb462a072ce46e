#include "trainers/tracking/event_encoding.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>

namespace event_encoding_test {

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

}  // namespace

TEST_SUITE("TensorBoard's events") {
  TEST_CASE("TensorBoard events: the checksum is CRC-32C") {
    CHECK(trainer::crc32c("") == 0);
    CHECK(trainer::crc32c("123456789") == 0xe3069283);
    CHECK(trainer::crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
    CHECK(trainer::crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  }

  TEST_CASE("TensorBoard events: a record has masked checksums of its length and its bytes") {
    CHECK(hex(trainer::tf_record("abc")) ==
          "0300000000000000"
          "b099490e"
          "616263"
          "6e57f121");
  }

  TEST_CASE("TensorBoard events: events are encoded as protocol buffers") {
    // Field 1, a double: 09 and its 8 bytes. 1.5 is 3ff8000000000000.
    const std::string time = "09000000000000f83f";
    CHECK(hex(trainer::version_event(1.5)) == time + "1a0d" + hex("brain.Event:2"));
    CHECK(hex(trainer::restart_event(1.5, 300)) == time + "10ac02" + "3a020801");
    // Summary (2a) of a value (0a) of a tag (0a) and a float (15): 0.5 is 3f000000.
    const std::array<trainer::Scalar, 1> scalars = {{{"a/b", 0.5}}};
    CHECK(hex(trainer::scalars_event(1.5, 3, scalars)) ==
          time + "1003" + "2a0c" + "0a0a" + "0a03" + hex("a/b") + "150000003f");
  }

  TEST_CASE("TensorBoard events: special characters in a table cell are escaped") {
    CHECK(trainer::settings_table({{"a", "1|2"}, {"b", "c:\\|"}, {"d", "x\ny\x7fz"}}) ==
          "| option | value |\n| --- | --- |\n"
          "| a | 1\\|2 |\n| b | c:\\\\\\| |\n| d | x y z |\n");
  }
}

}  // namespace event_encoding_test
