// Lines of /proc/net/tcp and tcp6.
#include "rendezvous/store/connection_table.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <sys/socket.h>

namespace connection_table_test {

using ddprun::connection_end;
using ddprun::parse_connection_row;

namespace {

constexpr std::array<std::uint8_t, 4> kLoopback = {127, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> kLoopback6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                     0, 0, 0, 0, 0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> kMapped = {0, 0, 0,    0,    0,   0, 0, 0,
                                                  0, 0, 0xff, 0xff, 127, 0, 0, 1};

/// After the addresses: state, queues, timer, retransmissions, user, timeout, inode.
const std::string kRest = " 01 00000000:00000000 00:00000000 00000000 ";

}  // namespace

// The table shows numbers in the machine's byte order.
static_assert(std::endian::native == std::endian::little);

TEST_SUITE("connection table") {
  TEST_CASE("connection table: a row yields both addresses and the user and the inode") {
    const auto row = parse_connection_row("   1: 0100007F:1F90 0100007F:C350" + kRest +
                                          " 1000        0 30733 1 00000000bd5 20 4 30 10 -1");
    REQUIRE(row);
    CHECK(row->own == connection_end(kLoopback, 8080));
    CHECK(row->peer == connection_end(kLoopback, 50'000));
    CHECK(row->user == 1000);
    CHECK(row->has_owner);
  }

  TEST_CASE("connection table: a tcp6 row yields IPv6 addresses or mapped IPv4 addresses") {
    const auto ipv6 = parse_connection_row(
        "  10: 00000000000000000000000001000000:0016 00000000000000000000000001000000:C350" +
        kRest + "0 0 0");
    REQUIRE(ipv6);
    CHECK(ipv6->own == connection_end(kLoopback6, 22));
    CHECK(ipv6->own.family == AF_INET6);
    CHECK_FALSE(ipv6->has_owner);
    const auto mapped = parse_connection_row(
        "  10: 0000000000000000FFFF00000100007F:0016 0000000000000000FFFF00000100007F:C350" +
        kRest + "65534 0 7");
    REQUIRE(mapped);
    CHECK(mapped->own == connection_end(kLoopback, 22));
    CHECK(connection_end(kMapped, 22) == connection_end(kLoopback, 22));
    CHECK(mapped->user == 65'534);
  }

  TEST_CASE("connection table: the title row and malformed rows are skipped") {
    const std::string title =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
        "timeout "
        "inode";
    const std::string whole = "   1: 0100007F:1F90 0100007F:C350" + kRest + "1000 0 30733";
    REQUIRE(parse_connection_row(whole));
    for (const auto& line :
         {title, std::string(), "   1: 0100007F:1F9 0100007F:C350" + kRest + "1000 0 30733",
          "   1: 0100007:1F90 0100007F:C350" + kRest + "1000 0 30733",
          "   1: 0100007G:1F90 0100007F:C350" + kRest + "1000 0 30733",
          "   1: 0100007F:1F90 0100007FC350" + kRest + "1000 0 30733",
          "   1: 0100007F:1F90 0100007F:C350" + kRest + "-1 0 30733",
          "   1: 0100007F:1F90 0100007F:C350" + kRest + "1000 0 inode",
          whole.substr(0, whole.size() - 6)}) {
      CAPTURE(line);
      CHECK_FALSE(parse_connection_row(line));
    }
  }
}

}  // namespace connection_table_test
