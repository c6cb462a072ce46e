// Every collective of ranks with shared memory, compared with a serial reference for every path of
// the data.
#include "rendezvous/base/processor.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/serial_collectives.hpp"
#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/group/process_group_impl.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace collectives_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Path of the data: threads can access all memory, processes only arenas.
struct Way {
  const char* name;
  shared_memory::Reach reach;
  bool in_arena;
};

constexpr Way kWays[] = {
    {"threads", shared_memory::Reach::everything, false},
    {"zero copy", shared_memory::Reach::arenas, true},
    {"staged", shared_memory::Reach::arenas, false},
};

constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                               DataType::bfloat16, DataType::int32,   DataType::int64,
                               DataType::uint8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::min,
                             ReduceOp::max};

/// Sizes around the switches between paths (2 KiB, pieces of 32 KiB), times the ranks for some
/// collectives.
constexpr std::size_t kCounts[] = {0, 1, 255, 513, 8193};

void run_ways(int size, const std::function<void(ProcessGroup&, const Way&)>& body) {
  for (const Way& way : kWays) {
    CAPTURE(way.name);
    GroupOptions options;
    options.arena_bytes = 16 << 20;
    options.collective_timeout = std::chrono::seconds(60);
    run_ranks(
        create_in_process_groups(create_in_process_backends(size, options, way.reach), options),
        [&](ProcessGroup& group) { body(group, way); });
  }
}

/// A buffer of this rank, in an arena or not, with its memory.
struct OwnBuffer {
  std::shared_ptr<void> memory;
  Buffer buffer;

  Bytes bytes() const {
    const auto* first = static_cast<const std::byte*>(buffer.data);
    return {first, first + buffer.bytes()};
  }
};

OwnBuffer make_buffer(ProcessGroup& group, const Way& way, const Bytes& content, DataType type) {
  OwnBuffer own;
  const std::size_t bytes = std::max<std::size_t>(content.size(), 1);
  own.memory = way.in_arena ? group.allocate(bytes)
                            : std::shared_ptr<void>(::operator new(bytes),
                                                    [](void* p) { ::operator delete(p); });
  if (!content.empty()) std::memcpy(own.memory.get(), content.data(), content.size());
  own.buffer = {own.memory.get(), content.size() / size_of(type), type};
  return own;
}

OwnBuffer make_output(ProcessGroup& group, const Way& way, std::size_t elements, DataType type) {
  return make_buffer(group, way, Bytes(elements * size_of(type), std::byte{0xee}), type);
}

struct Reduction {
  DataType type;
  ReduceOp op;
  std::size_t count;  ///< of a rank's part
  std::shared_ptr<const std::vector<Bytes>> inputs;
  Bytes expected;
};

std::vector<Reduction> make_reductions(int size, DataType type) {
  std::vector<Reduction> reductions;
  for (const std::size_t count : kCounts) {
    const auto inputs = std::make_shared<const std::vector<Bytes>>(
        make_inputs(size, count * static_cast<std::size_t>(size), type));
    for (const ReduceOp op : kOps) {
      // Paths depend on the size, not on the op: the other ops use each path once.
      if (op != ReduceOp::sum && op != ReduceOp::average && count != 255 && count != 8193) continue;
      reductions.push_back({type, op, count, inputs, serial_reduce(*inputs, type, op)});
    }
  }
  return reductions;
}

void check_reduction(ProcessGroup& group, const Way& way, const Reduction& one) {
  CAPTURE(std::string(to_string(one.type)) + " " + to_string(one.op) + " " +
          std::to_string(one.count));
  const Bytes& mine = (*one.inputs)[group.rank()];
  const auto all = make_buffer(group, way, mine, one.type);
  group.all_reduce(all.buffer, one.op).wait();
  CHECK(all.bytes() == one.expected);

  const int root = static_cast<int>(one.count) % group.size();
  const auto at_root = make_buffer(group, way, mine, one.type);
  group.reduce(at_root.buffer, root, one.op).wait();
  CHECK(at_root.bytes() == (group.rank() == root ? one.expected : mine));

  const auto input = make_buffer(group, way, mine, one.type);
  const auto part = make_output(group, way, one.count, one.type);
  group.reduce_scatter(input.buffer, part.buffer, one.op).wait();
  CHECK(part.bytes() == part_of(one.expected, group.rank(), group.size()));
  CHECK(input.bytes() == mine);
}

}  // namespace

TEST_SUITE("collectives") {
  TEST_CASE("collectives: reductions match serial results for each type and op and algorithm") {
    for (const int size : {1, 2, 3, 5, 7, 8}) {
      for (const DataType type : kTypes) {
        const auto cases = make_reductions(size, type);
        run_ways(size, [&](ProcessGroup& group, const Way& way) {
          for (const auto& one : cases) check_reduction(group, way, one);
        });
      }
    }
  }

  TEST_CASE("collectives: collectives without reduction match serial results on every rank") {
    for (const int size : {1, 2, 3, 4, 7, 8}) {
      run_ways(size, [&](ProcessGroup& group, const Way& way) {
        const auto n = static_cast<std::size_t>(size);
        const int rank = group.rank();
        for (const DataType type : {DataType::uint8, DataType::float32, DataType::int64}) {
          for (const std::size_t count : kCounts) {
            CAPTURE(std::string(to_string(type)) + " " + std::to_string(count));
            const auto inputs = make_inputs(size, count, type);
            const auto wide = make_inputs(size, count * n, type);
            const int root = static_cast<int>(count + 1) % size;
            Bytes joined;
            for (const auto& input : inputs)
              joined.insert(joined.end(), input.begin(), input.end());
            Bytes transposed;
            for (const auto& input : wide) {
              const Bytes part = part_of(input, rank, size);
              transposed.insert(transposed.end(), part.begin(), part.end());
            }
            const auto input = make_buffer(group, way, inputs[rank], type);
            const auto wide_input = make_buffer(group, way, wide[rank], type);
            const auto output = make_output(group, way, count, type);
            const auto wide_output = make_output(group, way, count * n, type);

            group.all_gather(input.buffer, wide_output.buffer).wait();
            CHECK(wide_output.bytes() == joined);
            group.all_to_all(wide_input.buffer, wide_output.buffer).wait();
            CHECK(wide_output.bytes() == transposed);
            group.gather(input.buffer, wide_output.buffer, root).wait();
            CHECK(wide_output.bytes() == (rank == root ? joined : transposed));
            group.scatter(wide_input.buffer, output.buffer, root).wait();
            CHECK(output.bytes() == part_of(wide[root], rank, size));
            group.broadcast(output.buffer, root).wait();
            CHECK(output.bytes() == part_of(wide[root], root, size));
            CHECK(input.bytes() == inputs[rank]);
            CHECK(wide_input.bytes() == wide[rank]);
          }
        }
      });
    }
  }

  TEST_CASE("collectives: results do not depend on the callers' floating-point settings") {
    for (const std::size_t count : {100, 8193}) {
      Bytes content(count * sizeof(float));
      for (std::size_t i = 0; i < content.size(); i += sizeof(float)) content[i] = std::byte{0x11};
      const Bytes expected = serial_reduce({content, content}, DataType::float32, ReduceOp::sum);
      run_ways(2, [&](ProcessGroup& group, const Way& way) {
        const FloatSettings settings = float_settings();
        if (group.rank() == 0) set_float_settings(settings | kFlushDenormals);
        const auto own = make_buffer(group, way, content, DataType::float32);
        group.all_reduce(own.buffer).wait();
        CHECK(own.bytes() == expected);
        CHECK((float_settings() & kFlushDenormals) == (group.rank() == 0 ? kFlushDenormals : 0));
        set_float_settings(settings);
      });
    }
  }

  TEST_CASE("collectives: in-place calls work with every algorithm") {
    const auto check = [](ProcessGroup& group, const Way& way) {
      const int size = group.size();
      const auto rank = static_cast<std::size_t>(group.rank());
      for (const std::size_t count : kCounts) {
        const auto wide =
            make_inputs(size, count * static_cast<std::size_t>(size), DataType::float32);
        const auto gathered = make_buffer(group, way, wide[rank], DataType::float32);
        group.all_gather(gathered.buffer.slice(rank * count, count), gathered.buffer).wait();
        Bytes diagonal;
        for (int r = 0; r < size; ++r) {
          const Bytes part = part_of(wide[static_cast<std::size_t>(r)], r, size);
          diagonal.insert(diagonal.end(), part.begin(), part.end());
        }
        CHECK(gathered.bytes() == diagonal);

        const auto scattered = make_buffer(group, way, wide[rank], DataType::float32);
        const Buffer own = scattered.buffer.slice(rank * count, count);
        group.reduce_scatter(scattered.buffer, own, ReduceOp::sum).wait();
        const Bytes sum = serial_reduce(wide, DataType::float32, ReduceOp::sum);
        CHECK(part_of(scattered.bytes(), group.rank(), size) == part_of(sum, group.rank(), size));

        const auto exchanged = make_buffer(group, way, wide[rank], DataType::float32);
        group.all_to_all(exchanged.buffer, exchanged.buffer).wait();
        for (int r = 0; r < size; ++r) {
          const Bytes& theirs = wide[static_cast<std::size_t>(r)];
          CHECK(part_of(exchanged.bytes(), r, size) == part_of(theirs, group.rank(), size));
        }

        const auto kept = make_buffer(group, way, wide[rank], DataType::float32);
        const Buffer part = kept.buffer.slice(rank * count, count);
        group.gather(part, kept.buffer, 1).wait();
        if (rank == 1) {
          CHECK(kept.bytes() == diagonal);
        } else if (count > 0) {
          std::memset(part.data, 0, part.bytes());
        }
        group.scatter(kept.buffer, part, 1).wait();
        CHECK(part_of(kept.bytes(), group.rank(), size) == part_of(diagonal, group.rank(), size));
      }
    };
    run_ways(2, check);
    run_ways(3, check);
  }

  TEST_CASE("collectives: a barrier completes only after all ranks have arrived") {
    std::atomic<int> come = 0;
    run_ranks(4, [&](ProcessGroup& group) {
      for (int round = 1; round <= 100; ++round) {
        ++come;
        group.barrier().wait();
        CHECK(come >= 4 * round);
        group.barrier().wait();
      }
    });
  }

  TEST_CASE("collectives: random sequences of calls match serial results") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    for (const auto reach : {shared_memory::Reach::everything, shared_memory::Reach::arenas}) {
      for (const int size : {2, 3, 6}) {
        CAPTURE(size);
        GroupOptions options;
        options.arena_bytes = 64 << 20;
        options.collective_timeout = std::chrono::seconds(60);
        run_ranks(
            create_in_process_groups(create_in_process_backends(size, options, reach), options),
            [&](ProcessGroup& group) { CHECK(RandomCalls(group, seed).run(25) == "ok"); });
      }
    }
  }

  TEST_CASE("collectives: many pending works complete in call order") {
    run_ranks(3, [&](ProcessGroup& group) {
      std::vector<float> values(300);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      std::vector<Work> works;
      for (std::size_t i = 0; i < values.size(); ++i)
        works.push_back(group.all_reduce(as_buffer(&values[i], 1)));
      works.back().wait();
      for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(works[i].is_done());
        CHECK(values[i] == 3 * static_cast<float>(i));
      }
    });
  }
}

}  // namespace collectives_test
