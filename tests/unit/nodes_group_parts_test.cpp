// Parts of a group over several nodes that decide or encode: wide types, data of workers, the
// layout that follows, failures as text.
#include "tests/support/serial_collectives.hpp"
#include "worker_runtime/backends/host/node_meeting.hpp"
#include "worker_runtime/backends/host/tcp/first_failure.hpp"
#include "worker_runtime/backends/host/tcp/hello.hpp"
#include "worker_runtime/collectives/wide_types.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nodes_group_parts_test {

using namespace ddprun;
using ddprun::host::layout_of;
using ddprun::host::Presence;
using ddprun::shared_memory::FailureKind;
using ddprun::shared_memory::FailureRecord;

namespace {

constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                               DataType::bfloat16, DataType::int32,   DataType::int64,
                               DataType::uint8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::min,
                             ReduceOp::max};

Presence worker(int node, int local_world_size) {
  return {.node = node, .local_world_size = local_world_size, .address = {{"10.0.0.1"}, 1}};
}

const Digest kKey = sha256("the group's key");

std::string refusal(const std::vector<Presence>& workers) {
  try {
    layout_of(workers);
  } catch (const Error& error) {
    return error.code() == Errc::usage ? error.what() : "not a usage error";
  }
  return "none";
}

}  // namespace

TEST_SUITE("nodes group parts") {
  TEST_CASE("nodes group: widening and finalising one value returns it for every type") {
    for (const DataType type : kTypes) {
      for (const ReduceOp op : kOps) {
        const auto input = test::make_inputs(1, 1000, type)[0];
        const DataType wide = collectives::partial_type(type, op);
        test::Bytes partial(1000 * size_of(wide));
        test::Bytes result(input.size());
        collectives::widen(type, op, input.data(), partial.data(), 1000);
        collectives::complete(type, op, 1, {partial.data(), 1000, wide}, result.data());
        CHECK_MESSAGE(result == input, to_string(type), " ", to_string(op));
      }
    }
  }

  TEST_CASE("nodes group: averages of small integers do not wrap around") {
    std::vector<std::int64_t> partial = {600, -600, 1};
    std::vector<std::int32_t> result(3);
    collectives::complete(DataType::int32, ReduceOp::average, 4,
                          {partial.data(), 3, DataType::int64}, result.data());
    CHECK(result == std::vector<std::int32_t>{150, -150, 0});
  }

  TEST_CASE("nodes group: an address in the store is accepted only with the group's proof") {
    const Presence presence{.node = 3,
                            .local_world_size = 8,
                            .address = {{"10.0.0.1", "fd00::1"}, 4711},
                            .message_port = 4712};
    const auto text = host::encode(presence, 5, kKey);
    CHECK(host::decode_presence(text, 5, kKey) == presence);
    CHECK_THROWS_AS(host::decode_presence(text, 6, kKey), Error);
    CHECK_THROWS_AS(host::decode_presence(text, 5, Digest{}), Error);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      CAPTURE(i);
      auto changed = text;
      if (i == text.size()) {
        changed += " 10.0.0.2";
      } else {
        changed[i] = changed[i] == '1' ? '2' : '1';
      }
      CHECK_THROWS_AS(host::decode_presence(changed, 5, kKey), Error);
      CHECK_THROWS_AS(host::decode_presence(text.substr(0, i == text.size() ? 0 : i), 5, kKey),
                      Error);
    }
  }

  TEST_CASE("nodes group: an invalid address of a worker is rejected") {
    for (const Presence& wrong :
         {Presence{.node = 0, .local_world_size = 0, .address = {{}, 4711}, .message_port = 4712},
          Presence{.node = 0, .local_world_size = 1, .address = {{}, 0}, .message_port = 4712},
          Presence{.node = 0, .local_world_size = 1, .address = {{}, 4711}, .message_port = 0}})
      CHECK_THROWS_AS(host::decode_presence(host::encode(wrong, 0, kKey), 0, kKey), Error);
  }

  TEST_CASE("nodes group: a layout is made only from consistent workers") {
    const auto layout = layout_of({worker(0, 2), worker(0, 2), worker(1, 1), worker(2, 1)});
    CHECK(layout.nodes() == 3);
    CHECK(layout.ranks_on(0) == 2);
    CHECK(layout.ranks_on(2) == 1);
    // Ranks of two nodes, alternating; and workers without a known node.
    CHECK(refusal({worker(0, 2), worker(1, 2), worker(0, 2), worker(1, 2)})
              .find("ranks 0 to 0 are on node 0, which has 2 workers") != std::string::npos);
    CHECK(refusal({worker(0, 1), worker(0, 1)})
              .find("ranks 0 to 1 are on node 0, which has 1 workers") != std::string::npos);
  }

  TEST_CASE("nodes group: a failure record round-trips and malformed ones are rejected") {
    const FailureRecord record{FailureKind::timeout, 12, "rank 12 is late: 3 s"};
    const auto read = tcp::decode_failure(tcp::encode(record));
    CHECK(read.kind == record.kind);
    CHECK(read.rank == record.rank);
    CHECK(read.text == record.text);
    for (const char* wrong : {"", "1", "1 ", "1 2", "x 2 text", "99 2 text", "1 y text"}) {
      CAPTURE(wrong);
      CHECK(tcp::decode_failure(wrong).kind == FailureKind::none);
    }
  }

  TEST_CASE("nodes group: each hello has a new nonce and names sender and receiver") {
    const auto hello = tcp::make_hello(3, 1);
    CHECK(tcp::is_hello(hello, 3, 1));
    CHECK_FALSE(tcp::is_hello(hello, 1, 3));
    CHECK_FALSE(tcp::is_hello(tcp::Hello{}, 3, 1));
    CHECK(tcp::make_hello(3, 1).nonce != hello.nonce);
  }

  TEST_CASE("nodes group: a proof is valid only for one side of one connection") {
    using tcp::Side;
    const auto call = tcp::make_hello(3, 1);
    const auto answer = tcp::make_hello(1, 3);
    const auto proof = tcp::prove(Side::caller, kKey, call, answer);
    CHECK(are_equal(proof, tcp::prove(Side::caller, kKey, call, answer)));
    CHECK_FALSE(are_equal(proof, tcp::prove(Side::listener, kKey, call, answer)));
    CHECK_FALSE(are_equal(proof, tcp::prove(Side::caller, Digest{}, call, answer)));
    CHECK_FALSE(are_equal(proof, tcp::prove(Side::caller, kKey, answer, call)));
    CHECK_FALSE(are_equal(proof, tcp::prove(Side::caller, kKey, tcp::make_hello(3, 1), answer)));
    CHECK_FALSE(are_equal(proof, tcp::prove(Side::caller, kKey, call, tcp::make_hello(1, 3))));
  }

  TEST_CASE("nodes group: each kind of connection has a separate key") {
    const host::NodeMeeting meeting{.key = kKey, .prefix = {}, .workers = {}};
    CHECK_FALSE(are_equal(host::key_for(meeting, "mesh"), host::key_for(meeting, "messages")));
    CHECK_FALSE(are_equal(host::key_for(meeting, "mesh"), kKey));
  }
}

}  // namespace nodes_group_parts_test
