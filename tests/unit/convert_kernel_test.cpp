#include "tests/support/emulated_kernels.hpp"
#include "tests/support/fake_cuda.hpp"
#include "worker_runtime/collectives/half.hpp"
#include "worker_runtime/cuda/device_objects.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <vector>

namespace convert_kernel_test {

using namespace ddprun;

namespace {

struct Ours {};
using Halves = collectives::Half<Ours>;

constexpr DataType kFloatTypes[] = {DataType::float32, DataType::float64, DataType::float16,
                                    DataType::bfloat16};

/// Value of an element whose conversion to each type is exact.
double value_at(const std::byte* at, DataType type) {
  const auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (type == DataType::float64) return as(0.0);
  if (type == DataType::float32) return static_cast<double>(as(0.0F));
  const auto bits = as(std::uint16_t{0});
  return static_cast<double>(type == DataType::float16 ? Halves::from_float16(bits)
                                                       : Halves::from_bfloat16(bits));
}

/// Rounds like the CPU; values exact in float32 if `type` is a half type.
void put_at(std::byte* at, DataType type, double value) {
  const auto put = [at](auto rounded) { std::memcpy(at, &rounded, sizeof rounded); };
  if (type == DataType::float64) return put(value);
  const auto single = static_cast<float>(value);
  if (type == DataType::float32) return put(single);
  put(type == DataType::float16 ? Halves::to_float16(single) : Halves::to_bfloat16(single));
}

/// Converts the pieces on a stream of the fake, and waits for it.
cudaError_t convert(const std::vector<cuda::Piece>& pieces, DataType from, DataType to,
                    double scale) {
  const cuda::Stream stream(test::fake_cuda(), 0);
  const auto error = test::emulated_kernels().convert(pieces, from, to, scale, stream.get());
  std::promise<void> done;
  test::launch_on(stream.get(), [&done] { done.set_value(); });
  done.get_future().wait();
  return error;
}

/// Memory whose first element is this number of bytes past the alignment of every vector.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t shift) : bytes_(bytes + shift), first_(shift) {
    data_.reset(static_cast<std::byte*>(::operator new (bytes_, std::align_val_t{64})));
    std::memset(data_.get(), 0x5a, bytes_);
  }
  std::byte* data() { return data_.get() + first_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::size_t bytes_;
  std::size_t first_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Returns whether all `values`, from and to memory at these offsets in elements, are converted
/// like on the CPU.
void check_values(const std::vector<float>& values, DataType from, DataType to, double scale,
                  std::size_t from_shift, std::size_t to_shift) {
  CAPTURE(to_string(from));
  CAPTURE(to_string(to));
  CAPTURE(scale);
  const std::size_t elements = values.size();
  Memory source(elements * size_of(from), from_shift * size_of(from));
  Memory result(elements * size_of(to), to_shift * size_of(to));
  for (std::size_t i = 0; i < elements; ++i)
    put_at(source.data() + i * size_of(from), from, static_cast<double>(values[i]));
  REQUIRE(convert({{source.data(), result.data(), elements}}, from, to, scale) == cudaSuccess);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    const double value = value_at(source.data() + i * size_of(from), from);
    const bool is_double = from == DataType::float64 || to == DataType::float64;
    const double product =
        is_double ? value * scale
                  : static_cast<double>(static_cast<float>(value) * static_cast<float>(scale));
    std::byte expected[8];
    put_at(expected, to, product);
    const std::byte* got = result.data() + i * size_of(to);
    const bool both_nan = std::isnan(product) && std::isnan(value_at(got, to));
    if (!both_nan && std::memcmp(expected, got, size_of(to)) != 0) ++wrong;
  }
  CHECK(wrong == 0);
}

/// All values of float16 and bfloat16, midpoints between two of them, and neighbours of those.
std::vector<float> hard_values() {
  std::vector<float> values;
  for (std::uint32_t half = 0; half <= 0xffffU; half += 7) {
    for (const float value : {Halves::from_float16(static_cast<std::uint16_t>(half)),
                              Halves::from_bfloat16(static_cast<std::uint16_t>(half))}) {
      values.push_back(value);
      for (const std::uint32_t beside : {0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U})
        values.push_back(Halves::float_of(Halves::bits_of(value) ^ beside));
    }
  }
  using Limits = std::numeric_limits<float>;
  for (const float value :
       {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::signaling_NaN(),
        Limits::denorm_min(), -Limits::denorm_min(), Limits::min(), Limits::max(), 65504.0F,
        65519.996F, 65520.0F, 0x1p-24F, 0x1p-25F, 0x1.000002p-25F, 0.0F, -0.0F}) {
    values.push_back(value);
  }
  return values;
}

std::vector<float> some_values(std::size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

TEST_SUITE("convert kernel") {
  TEST_CASE("convert kernel: each pair of float types equals the CPU result for edge cases") {
    const auto values = hard_values();
    for (const DataType from : kFloatTypes) {
      for (const DataType to : kFloatTypes) {
        check_values(values, from, to, 1.0, 0, 0);
        check_values(values, from, to, 0.25, 0, 0);
      }
    }
  }

  TEST_CASE("convert kernel: scaled half values are rounded once from float32") {
    const auto values = some_values(10'000);
    for (const DataType from : {DataType::float32, DataType::float16, DataType::bfloat16}) {
      for (const DataType to : {DataType::float32, DataType::float16, DataType::bfloat16})
        check_values(values, from, to, 1.0 / 3, 0, 0);
    }
    check_values(values, DataType::float64, DataType::float64, 1.0 / 3, 0, 0);
  }

  TEST_CASE("convert kernel: float64 is rounded to half types once without float32") {
    // Slightly above a midpoint of float16, by less than the precision of float32.
    const double value = 1.0 + 0x1p-11 + 0x1p-40;
    std::uint16_t half = 0;
    REQUIRE(convert({{&value, &half, 1}}, DataType::float64, DataType::float16, 1.0) ==
            cudaSuccess);
    CHECK(half == 0x3c01);
  }

  TEST_CASE("convert kernel: sizes around vector and tile bounds work at every alignment") {
    const auto values = some_values(9000);
    for (const auto& [from, to] : {std::pair(DataType::float32, DataType::bfloat16),
                                   std::pair(DataType::bfloat16, DataType::float32),
                                   std::pair(DataType::float16, DataType::float16),
                                   std::pair(DataType::float64, DataType::float32)}) {
      for (const std::size_t size : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 4095, 4097, 8191}) {
        for (std::size_t shift = 0; shift < 8; ++shift) {
          const std::vector<float> some(values.begin(), values.begin() + static_cast<long>(size));
          check_values(some, from, to, 0.5, shift, shift);
          if (size < 32 || shift == 3) check_values(some, from, to, 0.5, 0, shift);
        }
      }
    }
  }

  TEST_CASE("convert kernel: elements of the same type are copied bit for bit") {
    for (const DataType type : {DataType::uint8, DataType::float16, DataType::bfloat16,
                                DataType::int32, DataType::float32, DataType::int64}) {
      CAPTURE(to_string(type));
      for (const std::size_t elements : {1, 3, 17, 300, 20'000}) {
        for (const std::size_t shift : {0, 1, 3}) {
          const std::size_t bytes = elements * size_of(type);
          Memory from(bytes, shift * size_of(type));
          Memory to(bytes, 3 * size_of(type));
          std::mt19937 random(7);
          for (std::size_t i = 0; i < bytes; ++i) from.data()[i] = std::byte(random() & 0xffU);
          REQUIRE(convert({{from.data(), to.data(), elements}}, type, type, 1.0) == cudaSuccess);
          CHECK(std::memcmp(from.data(), to.data(), bytes) == 0);
        }
      }
    }
  }

  TEST_CASE("convert kernel: many pieces are converted in several launches") {
    constexpr std::size_t kPieces = 1700;  // three launches
    const auto values = some_values(kPieces * 40);
    std::vector<std::uint16_t> flat(values.size() + 1, 0x5a5a);
    std::vector<std::vector<float>> apart;
    std::vector<cuda::Piece> pieces;
    std::size_t first = 0;
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t elements = i * 7 % 41;
      const auto begin = values.begin() + static_cast<long>(first);
      apart.emplace_back(begin, begin + static_cast<long>(elements));
      pieces.push_back({apart.back().data(), flat.data() + first, elements});
      first += elements;
    }
    REQUIRE(convert(pieces, DataType::float32, DataType::bfloat16, 1.0) == cudaSuccess);
    for (std::size_t i = 0; i < first; ++i) REQUIRE(flat[i] == Halves::to_bfloat16(values[i]));
    CHECK(flat[first] == 0x5a5a);
    CHECK(convert({}, DataType::float32, DataType::bfloat16, 1.0) == cudaSuccess);
  }

  TEST_CASE("convert kernel: elements can be scaled in place") {
    auto values = some_values(5003);
    const auto before = values;
    REQUIRE(convert({{values.data(), values.data(), values.size()}}, DataType::float32,
                    DataType::float32, 0.1) == cudaSuccess);
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == before[i] * 0.1F);
  }

  TEST_CASE("convert kernel: values are divided with one rounding") {
    const auto divide = [](void* values, std::size_t elements, DataType type, double divisor) {
      const cuda::Stream stream(test::fake_cuda(), 0);
      const auto error =
          test::emulated_kernels().divide(values, elements, type, divisor, stream.get());
      test::fake_cuda().stream_synchronize(stream.get());
      return error;
    };
    for (const int divisor : {3, 7, 49}) {
      CAPTURE(divisor);
      const auto before = some_values(5003);
      auto floats = before;
      std::vector<double> doubles(before.begin(), before.end());
      std::vector<std::uint16_t> halves;
      halves.reserve(before.size());
      for (const float value : before) halves.push_back(Halves::to_bfloat16(value));
      REQUIRE(divide(floats.data(), floats.size(), DataType::float32, divisor) == cudaSuccess);
      REQUIRE(divide(doubles.data(), doubles.size(), DataType::float64, divisor) == cudaSuccess);
      REQUIRE(divide(halves.data(), halves.size(), DataType::bfloat16, divisor) == cudaSuccess);
      for (std::size_t i = 0; i < before.size(); ++i) {
        REQUIRE(floats[i] == before[i] / static_cast<float>(divisor));
        REQUIRE(doubles[i] == static_cast<double>(before[i]) / divisor);
        const float half = Halves::from_bfloat16(Halves::to_bfloat16(before[i]));
        REQUIRE(halves[i] == Halves::to_bfloat16(half / static_cast<float>(divisor)));
      }
    }
    std::vector<std::int64_t> integers(10);
    CHECK(divide(integers.data(), 10, DataType::int64, 3) == cudaErrorInvalidValue);
  }

  TEST_CASE("convert kernel: integers are neither scaled nor cast") {
    std::int32_t from = 1;
    float to = 0;
    CHECK(convert({{&from, &from, 1}}, DataType::int32, DataType::int32, 2.0) ==
          cudaErrorInvalidValue);
    CHECK(convert({{&from, &to, 1}}, DataType::int32, DataType::float32, 1.0) ==
          cudaErrorInvalidValue);
    CHECK(convert({{&to, &from, 1}}, DataType::float32, DataType::int32, 1.0) ==
          cudaErrorInvalidValue);
  }
}

}  // namespace convert_kernel_test
