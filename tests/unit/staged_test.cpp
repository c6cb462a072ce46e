// Messages longer than a rank's pipe in shared memory use it several times.
#include "tests/support/rank_threads.hpp"
#include "tests/support/serial_collectives.hpp"
#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/backends/host/shared_memory/layout.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace staged_test {

using namespace ddprun;
using namespace ddprun::test;
using shared_memory::kPieceBytes;
using shared_memory::kPieces;

namespace {

/// Two and a half times its size, and an odd rest.
constexpr std::size_t kElements = kPieces * kPieceBytes / 4 * 5 / 2 + 3;

Buffer buffer_of(Bytes& bytes) {
  return {bytes.data(), bytes.size() / 4, DataType::float32};
}

void run_staged_ranks(int size, const std::function<void(ProcessGroup&)>& body) {
  GroupOptions options;
  options.arena_bytes = 2 << 20;
  const auto reach = shared_memory::Reach::arenas;
  run_ranks(create_in_process_groups(create_in_process_backends(size, options, reach), options),
            body);
}

}  // namespace

TEST_SUITE("staged collectives") {
  TEST_CASE("staged collectives: repeated long collectives in reused pipes match serial results") {
    for (const int size : {2, 3, 5}) {
      CAPTURE(size);
      const auto inputs = make_inputs(size, kElements, DataType::float32);
      const Bytes sum = serial_reduce(inputs, DataType::float32, ReduceOp::sum);
      run_staged_ranks(size, [&](ProcessGroup& group) {
        for (int repeat = 0; repeat < 3; ++repeat) {
          Bytes mine = inputs[static_cast<std::size_t>(group.rank())];
          group.all_reduce(buffer_of(mine)).wait();
          CHECK(mine == sum);
          Bytes sent = inputs[static_cast<std::size_t>(group.rank())];
          group.broadcast(buffer_of(sent), 1).wait();
          CHECK(sent == inputs[1]);
          Bytes all(sum.size() * static_cast<std::size_t>(size));
          group.all_gather(buffer_of(sent), buffer_of(all)).wait();
          for (int rank = 0; rank < size; ++rank) CHECK(part_of(all, rank, size) == inputs[1]);
        }
      });
    }
  }

  TEST_CASE("staged collectives: all ranks get the same bits of NaNs with different payloads") {
    constexpr std::size_t kLength = 3000;  // beyond the inline path, and an odd rest of a vector
    for (const int size : {2, 3}) {
      CAPTURE(size);
      std::vector<Bytes> results(static_cast<std::size_t>(size));
      run_staged_ranks(size, [&](ProcessGroup& group) {
        Bytes& own = results[static_cast<std::size_t>(group.rank())];
        own.resize((kLength + 1) * 4);
        for (std::size_t i = 0; i <= kLength; ++i) {
          const std::uint32_t bits = 0x7fc00000U + static_cast<std::uint32_t>(i * 8) +
                                     static_cast<std::uint32_t>(group.rank());
          std::memcpy(own.data() + 4 * i, &bits, sizeof bits);
        }
        group.all_reduce(buffer_of(own)).wait();
      });
      for (const auto& result : results) CHECK(result == results[0]);
    }
  }
}

}  // namespace staged_test
