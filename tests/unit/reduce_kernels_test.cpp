#include "worker_runtime/collectives/reduce_kernels.hpp"

#include "tests/support/serial_collectives.hpp"
#include "worker_runtime/collectives/half.hpp"
#include "worker_runtime/collectives/slicing.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reduce_kernels_test {

using namespace ddprun;
using namespace ddprun::collectives;
using namespace ddprun::test;

namespace {

struct TestIsa;
using TestHalf = Half<TestIsa>;

constexpr DataType kTypes[] = {DataType::float32,  DataType::float64, DataType::float16,
                               DataType::bfloat16, DataType::int32,   DataType::int64,
                               DataType::uint8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::min,
                             ReduceOp::max};

Bytes combine(Combine function, const std::vector<Bytes>& inputs, DataType type) {
  std::vector<const void*> sources;
  sources.reserve(inputs.size());
  for (const auto& input : inputs) sources.push_back(input.data());
  Bytes result(inputs[0].size());
  void* const destination = result.data();
  function(sources.data(), sources.size(), &destination, 1, result.size() / size_of(type));
  return result;
}

}  // namespace

TEST_SUITE("reduce kernels") {
  TEST_CASE("reduce kernels: every instruction set matches the serial reference bit for bit") {
    for (const KernelSet& set : kernel_sets()) {
      CAPTURE(set.name);
      if (!set.available()) continue;
      for (const DataType type : kTypes) {
        for (const ReduceOp op : kOps) {
          for (const int ranks : {1, 2, 3, 7}) {
            for (const std::size_t elements : {0, 1, 17, 1024, 2051}) {
              const auto inputs = make_inputs(ranks, elements, type);
              CHECK(combine(set.find(type, op), inputs, type) == serial_reduce(inputs, type, op));
            }
          }
        }
      }
    }
  }

  TEST_CASE("reduce kernels: every float16 round-trips through float and floats round to even") {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = TestHalf::from_float16(half);
      if (std::isnan(value)) {
        CHECK((TestHalf::to_float16(value) & 0x7fffU) > 0x7c00U);
        continue;
      }
      CHECK(TestHalf::to_float16(value) == half);
      // A midpoint: rounds to the even neighbour.
      if ((half & 0x7fffU) >= 0x7bffU) continue;
      const float next = TestHalf::from_float16(static_cast<std::uint16_t>(half + 1));
      const float middle = (value + next) / 2;
      const auto even = static_cast<std::uint16_t>((half & 1U) != 0 ? half + 1 : half);
      CHECK(TestHalf::to_float16(middle) == even);
      CHECK(TestHalf::to_float16(std::nextafter(middle, value)) == half);
    }
    CHECK(TestHalf::to_float16(65519.0F) == 0x7bff);
    CHECK(TestHalf::to_float16(65520.0F) == 0x7c00);
    CHECK(TestHalf::to_float16(-1e30F) == 0xfc00);
    CHECK(TestHalf::to_float16(std::numeric_limits<float>::infinity()) == 0x7c00);
    CHECK(TestHalf::to_float16(0x1p-25F) == 0);
    CHECK(TestHalf::to_float16(std::nextafter(0x1p-25F, 1.0F)) == 1);
  }

  TEST_CASE("reduce kernels: every bfloat16 round-trips through float and floats round to even") {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = TestHalf::from_bfloat16(half);
      if (std::isnan(value)) {
        CHECK(std::isnan(TestHalf::from_bfloat16(TestHalf::to_bfloat16(value))));
      } else {
        CHECK(TestHalf::to_bfloat16(value) == half);
      }
    }
    CHECK(TestHalf::to_bfloat16(std::bit_cast<float>(0x3f80'8000U)) == 0x3f80);
    CHECK(TestHalf::to_bfloat16(std::bit_cast<float>(0x3f81'8000U)) == 0x3f82);
    CHECK(TestHalf::to_bfloat16(std::bit_cast<float>(0x3f80'8001U)) == 0x3f81);
    CHECK(std::isnan(
        TestHalf::from_bfloat16(TestHalf::to_bfloat16(std::bit_cast<float>(0x7f80'0001U)))));
  }

  TEST_CASE("reduce kernels: integer sums wrap around and averages of small integers do not") {
    const std::vector<std::int32_t> large(3, std::numeric_limits<std::int32_t>::max());
    const void* sources[] = {large.data(), large.data()};
    std::vector<std::int32_t> result(3);
    void* const destination = result.data();
    combine_function(DataType::int32, ReduceOp::sum)(sources, 2, &destination, 1, 3);
    CHECK(result == std::vector<std::int32_t>(3, -2));
    combine_function(DataType::int32, ReduceOp::average)(sources, 2, &destination, 1, 3);
    CHECK(result == large);
  }

  TEST_CASE("reduce kernels: slices cover each element once and start at cache lines") {
    for (const std::size_t element_bytes : {1, 2, 4, 8}) {
      for (const int ranks : {1, 2, 3, 5, 120, 1024}) {
        for (const std::size_t elements : {0, 1, 15, 16, 17, 1000, 100'003}) {
          std::size_t next = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const Range slice = slice_of(elements, element_bytes, ranks, rank);
            CHECK((slice.first == next || slice.count == 0));
            CHECK((slice.count == 0 || slice.first * element_bytes % kSliceAlignment == 0));
            next += slice.count;
          }
          CHECK(next == elements);
        }
      }
    }
  }

  TEST_CASE("reduce kernels: rounds cover each element once and fit into a slot") {
    constexpr std::size_t kSlotBytes = 32 << 10;
    for (const std::size_t parts : {1, 3, 120, 1024}) {
      for (const std::size_t elements : {0, 1, 127, 128, 129, 100'003}) {
        const Rounds rounds = plan_rounds(elements, parts, 4, kSlotBytes);
        std::size_t next = 0;
        for (std::size_t i = 0; i < rounds.count(); ++i) {
          const Range range = rounds.range(i);
          CHECK(range.first == next);
          CHECK(range.count > 0);
          CHECK(range.count * 4 * parts <= kSlotBytes);
          next += range.count;
        }
        CHECK(next == elements);
      }
    }
  }
}

}  // namespace reduce_kernels_test
