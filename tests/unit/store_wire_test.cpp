#include "rendezvous/wire/bytes.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/operations.hpp"
#include "rendezvous/wire/reply.hpp"
#include "rendezvous/wire/request_parser.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace store_wire_test {

namespace wire = ddprun::wire;
using wire::Dialect;
using wire::Request;
using wire::RequestParser;

namespace {

/// Bytes from hexadecimal digits; blanks are skipped.
std::string hex(std::string_view digits) {
  std::string bytes;
  std::string pair;
  for (const char digit : digits) {
    if (digit == ' ') continue;
    pair += digit;
    if (pair.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    pair.clear();
  }
  return bytes;
}

const std::string kGreeting = hex("00 cef7853c");

/// One of each, in the order of the variant.
std::vector<Request> all_requests() {
  const std::string binary("\0/\xff", 3);
  return {wire::Ping{0xdeadbeef},
          wire::Set{"/k", "v"},
          wire::CompareSet{"/k", "", binary},
          wire::Get{"/k"},
          wire::Add{"/n", -2},
          wire::Check{{"/a", "/b"}},
          wire::Wait{{"/a", ""}},
          wire::NumberOfKeys{},
          wire::WatchKey{"/w"},
          wire::DeleteKey{"/d"},
          wire::Append{"/a", binary},
          wire::MultiGet{{"/a", "/b", "/c"}},
          wire::MultiSet{{{"/a", "1"}, {"/b", ""}}},
          wire::CancelWait{},
          wire::QueuePush{"/q", "item"},
          wire::QueuePop{"/q"},
          wire::QueueLength{"/q"},
          wire::ListKeys{},
          wire::Barrier{"/b", 8}};
}

bool has_operation(const Request& request, Dialect dialect) {
  const auto& operation = wire::kOperations[request.index()];
  return (dialect == Dialect::modern ? operation.modern : operation.legacy) != wire::kNoCode;
}

std::string encoded(const Request& request, Dialect dialect) {
  std::string bytes;
  wire::append_request(bytes, request, dialect);
  return bytes;
}

/// All requests in `pieces`, in order.
std::vector<Request> parse(RequestParser& parser, const std::vector<std::string_view>& pieces) {
  std::vector<Request> requests;
  for (std::string_view piece : pieces) {
    while (auto request = parser.next(piece)) requests.push_back(std::move(*request));
  }
  return requests;
}

/// The problem of these bytes; empty if they are valid.
std::string problem_of(std::string_view bytes) {
  RequestParser parser;
  parse(parser, {bytes});
  return parser.problem();
}

std::string with_length(const char* code, std::uint64_t length) {
  std::string bytes = hex(code);
  wire::append_integer(bytes, length);
  return bytes;
}

}  // namespace

TEST_SUITE("store wire") {
  TEST_CASE("store wire: each request of each dialect round-trips for any size of reads") {
    for (const Dialect dialect : {Dialect::modern, Dialect::legacy}) {
      for (const auto& request : all_requests()) {
        if (!has_operation(request, dialect)) continue;
        CAPTURE(wire::operation_name(request));
        std::string bytes = dialect == Dialect::modern ? kGreeting : "";
        bytes += encoded(request, dialect);
        bytes += encoded(wire::Add{"/after", 1}, dialect);
        const std::vector<Request> expected = {request, wire::Add{"/after", 1}};
        for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
          CAPTURE(cut);
          RequestParser parser;
          const std::string_view whole = bytes;
          CHECK(parse(parser, {whole.substr(0, cut), whole.substr(cut)}) == expected);
          CHECK(parser.dialect() == dialect);
          CHECK(parser.held_bytes() == 0);
        }
      }
    }
  }

  TEST_CASE("store wire: requests are decoded even if each read returns one byte") {
    std::string bytes = kGreeting;
    std::vector<Request> expected;
    for (const auto& request : all_requests()) {
      if (!has_operation(request, Dialect::modern)) continue;
      bytes += encoded(request, Dialect::modern);
      expected.push_back(request);
    }
    std::vector<std::string_view> pieces;
    for (const char& byte : bytes) pieces.emplace_back(&byte, 1);
    RequestParser parser;
    CHECK(parse(parser, pieces) == expected);
  }

  TEST_CASE("store wire: encoded bytes equal those of PyTorch's clients") {
    struct Row {
      const char* bytes;
      Dialect dialect;
      Request request;
    };
    const std::vector<Row> rows = {
        {"01 0200000000000000 2f6b 0100000000000000 76", Dialect::modern, wire::Set{"/k", "v"}},
        {"00 0200000000000000 2f6b 0100000000000000 76", Dialect::legacy, wire::Set{"/k", "v"}},
        {"06 0200000000000000 0200000000000000 2f6b 0300000000000000 2f7a7a", Dialect::modern,
         wire::Wait{{"/k", "/zz"}}},
        {"03 0200000000000000 2f6e feffffffffffffff", Dialect::legacy, wire::Add{"/n", -2}},
        {"03 0500000000000000 696e69742f 0100000000000000", Dialect::legacy, wire::Add{"init/", 1}},
        {"0d 39300000", Dialect::modern, wire::Ping{12345}},
        {"0c", Dialect::modern, wire::CancelWait{}},
        {"12 0200000000000000 2f62 0400000000000000", Dialect::modern, wire::Barrier{"/b", 4}},
    };
    for (const auto& row : rows) {
      CAPTURE(row.bytes);
      CHECK(encoded(row.request, row.dialect) == hex(row.bytes));
      RequestParser parser;
      const std::string greeting = row.dialect == Dialect::modern ? kGreeting : "";
      CHECK(parse(parser, {greeting + hex(row.bytes)}) == std::vector<Request>{row.request});
    }
  }

  TEST_CASE("store wire: the first bytes identify the dialect for any size of reads") {
    RequestParser modern;
    CHECK(parse(modern, {std::string_view(kGreeting).substr(0, 3)}).empty());
    CHECK(modern.dialect() == Dialect::undecided);
    CHECK(parse(modern, {std::string_view(kGreeting).substr(3)}).empty());
    CHECK(modern.dialect() == Dialect::modern);

    RequestParser legacy;
    CHECK(parse(legacy, {hex("00")}).empty());
    CHECK(legacy.dialect() == Dialect::undecided);
    CHECK(parse(legacy, {hex("02000000")}).empty());
    CHECK(legacy.dialect() == Dialect::legacy);
    CHECK_FALSE(legacy.is_malformed());
  }

  TEST_CASE("store wire: other protocols are rejected with a reason") {
    CHECK(problem_of("GET / HTTP/1.1\r\n") ==
          "sent the unknown operation code 71 (not a store's client?)");
    CHECK(problem_of(hex("00 cef7853d")) ==
          "begins with neither the protocol's magic nor a request");
    CHECK(problem_of(hex("00 00000000 01000000")).find("a key of 4294967296 bytes") !=
          std::string::npos);
    CHECK(problem_of(hex("09")) == "sent the unknown operation code 9 (not a store's client?)");
    CHECK(problem_of(kGreeting + hex("13")) == "sent the unknown operation code 19");
    CHECK(problem_of(kGreeting + hex("ff")) == "sent the unknown operation code 255");
    // A second greeting is not an operation.
    CHECK(problem_of(kGreeting + kGreeting) == "sent the unknown operation code 0");
  }

  TEST_CASE("store wire: lengths over the limit are rejected before the data arrives") {
    const auto refuses = [](const std::string& bytes) { return !problem_of(bytes).empty(); };
    CHECK_FALSE(refuses(kGreeting + with_length("03", wire::kKeyBytesMax)));
    CHECK(refuses(kGreeting + with_length("03", wire::kKeyBytesMax + 1)));
    CHECK(refuses(kGreeting + with_length("03", ~std::uint64_t{0})));

    const std::string set_key = kGreeting + hex("01 0100000000000000 6b");
    CHECK_FALSE(refuses(set_key + with_length("", wire::kValueBytesMax)));
    CHECK(refuses(set_key + with_length("", wire::kValueBytesMax + 1)));

    for (const char* code : {"05", "06", "0a", "0b"}) {
      CHECK_FALSE(refuses(kGreeting + with_length(code, wire::kKeysPerRequestMax)));
      CHECK(refuses(kGreeting + with_length(code, wire::kKeysPerRequestMax + 1)));
      CHECK(refuses(kGreeting + with_length(code, std::uint64_t{1} << 40)));
    }
  }

  TEST_CASE("store wire: memory is not allocated for data that has not arrived") {
    RequestParser parser;
    parse(parser, {kGreeting + hex("01 0100000000000000 6b") +
                   with_length("", wire::kValueBytesMax) + "abc"});
    CHECK(parser.held_bytes() == 0);
    CHECK_FALSE(parser.is_malformed());
    parse(parser, {std::string(100, 'x')});
    CHECK(parser.held_bytes() >= 80);
    CHECK(parser.held_bytes() < 300);
  }

  TEST_CASE("store wire: held_bytes() includes the memory of a long list") {
    RequestParser parser;
    std::string item;
    wire::append_string(item, "");
    std::string list = kGreeting + with_length("0b", 1000);
    for (int i = 0; i < 1999; ++i) list += item;
    CHECK(parse(parser, {list}).empty());
    CHECK(parser.held_bytes() >= 1999 * sizeof(std::string));
    CHECK(parse(parser, {item}).size() == 1);
    CHECK(parser.held_bytes() == 0);
    CHECK(parser.finished_bytes() >= 2000 * sizeof(std::string));
  }

  TEST_CASE("store wire: all strings of a request have a common size limit") {
    const std::string value(wire::kValueBytesMax, 'x');
    std::string item = with_length("", 1) + "k" + with_length("", value.size()) + value;
    RequestParser parser;
    std::vector<std::string_view> pieces;
    const std::string start = kGreeting + with_length("0b", 9);
    pieces.push_back(start);
    for (int i = 0; i < 9; ++i) pieces.push_back(item);
    CHECK(parse(parser, pieces).empty());
    CHECK(parser.problem() == "sent MULTI_SET of more than 67108864 bytes");
    CHECK(parser.held_bytes() == 0);
  }

  TEST_CASE("store wire: nothing is parsed after an error") {
    RequestParser parser;
    CHECK(parse(parser, {"GET", encoded(wire::Get{"/k"}, Dialect::legacy)}).empty());
    CHECK(parser.is_malformed());
  }

  TEST_CASE("store wire: an operation unknown to a dialect cannot be encoded") {
    std::string bytes;
    CHECK_THROWS_AS(wire::append_request(bytes, wire::ListKeys{}, Dialect::legacy), ddprun::Error);
    CHECK_THROWS_AS(wire::append_request(bytes, wire::WatchKey{"/k"}, Dialect::modern),
                    ddprun::Error);
  }

  TEST_CASE("store wire: the bytes of replies equal those that PyTorch's clients expect") {
    const auto bytes_of = [](const wire::Reply& reply) {
      std::string bytes;
      wire::append_reply(bytes, reply);
      return bytes;
    };
    CHECK(bytes_of(wire::Answer::ready) == hex("00"));
    CHECK(bytes_of(wire::Answer::wait_cancelled) == hex("01"));
    CHECK(bytes_of(wire::Answer::watch_registered) == hex("03"));
    CHECK(bytes_of(wire::Nonce{12345}) == hex("39300000"));
    CHECK(bytes_of(wire::Number{-2}) == hex("feffffffffffffff"));
    CHECK(bytes_of(wire::Value{"v"}) == hex("0100000000000000 76"));
    CHECK(bytes_of(wire::Values{{"v", ""}}) == hex("0100000000000000 76 0000000000000000"));
    CHECK(bytes_of(wire::Popped{}) == hex("0000000000000000"));
    CHECK(bytes_of(wire::Popped{2, "v"}) == hex("0200000000000000 0100000000000000 76"));
    CHECK(bytes_of(wire::Keys{hex("0100000000000000 0200000000000000 2f6b")}) ==
          hex("0100000000000000 0200000000000000 2f6b"));
    CHECK(bytes_of(wire::Notification({wire::Change::appended, "k", "", "n"})) ==
          hex("04 0100000000000000 6b 0000000000000000 0100000000000000 6e"));
  }

  TEST_CASE("store wire: integers of every width round-trip") {
    for (const std::int64_t value : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
      std::string bytes;
      wire::append_integer(bytes, value);
      CHECK(wire::load_integer<std::int64_t>(bytes.data()) == value);
    }
  }
}

}  // namespace store_wire_test
