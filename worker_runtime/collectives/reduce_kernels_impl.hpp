// The kernels, compiled once per instruction set: each .cpp file that includes this one defines its
// own tag Isa. Nothing from the standard library may be called, since the linker would merge copies
// compiled for different instruction sets.
#pragma once

#include "worker_runtime/collectives/half.hpp"
#include "worker_runtime/collectives/reduce_kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace ddprun::collectives {

// Elements combined at a time: all ranks' pieces and the accumulator fit into the L1 cache.
inline constexpr std::size_t kBlockElements = 1024;

/// Conversion between the stored type (Stored) and the type in which elements are combined (Value).
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

template <typename Isa>
struct BFloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return Half<Isa>::from_bfloat16(stored); }
  static Stored store(Value value) { return Half<Isa>::to_bfloat16(value); }
};

template <typename Isa>
struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return Half<Isa>::from_float16(stored); }
  static Stored store(Value value) { return Half<Isa>::to_float16(value); }
};

/// Signed integers as unsigned ones, whose overflow is defined.
template <typename Signed, typename Unsigned>
struct Wrapping {
  using Stored = Signed;
  using Value = Unsigned;
  static Value load(Stored stored) { return static_cast<Value>(stored); }
  static Stored store(Value value) { return static_cast<Stored>(value); }
};

/// Combines small integers in 64 bits, for averages.
template <typename T>
struct Widened {
  using Stored = T;
  using Value = std::int64_t;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return static_cast<Stored>(value); }
};

struct Sum {
  template <typename Value>
  static Value apply(Value a, Value b) {
    return static_cast<Value>(a + b);
  }
  template <typename Value>
  static Value finish(Value value, std::size_t) {
    return value;
  }
};

struct Average : Sum {
  template <typename Value>
  static Value finish(Value value, std::size_t count) {
    return value / static_cast<Value>(count);
  }
};

/// Average of wrapping 64-bit sums, by signed division.
struct WrappedAverage : Sum {
  static std::uint64_t finish(std::uint64_t value, std::size_t count) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value) /
                                      static_cast<std::int64_t>(count));
  }
};

struct Product {
  template <typename Value>
  static Value apply(Value a, Value b) {
    return static_cast<Value>(a * b);
  }
  template <typename Value>
  static Value finish(Value value, std::size_t) {
    return value;
  }
};

struct Min {
  template <typename Value>
  static Value apply(Value a, Value b) {
    return b < a ? b : a;
  }
  template <typename Value>
  static Value finish(Value value, std::size_t) {
    return value;
  }
};

struct Max {
  template <typename Value>
  static Value apply(Value a, Value b) {
    return a < b ? b : a;
  }
  template <typename Value>
  static Value finish(Value value, std::size_t) {
    return value;
  }
};

template <typename Isa, typename Format, typename Op>
struct Kernel {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;

  static void combine(const void* const* sources, std::size_t source_count,
                      void* const* destinations, std::size_t destination_count,
                      std::size_t elements) {
    if (source_count == 2 && destination_count == 2) {
      return combine_pair(at(sources[0], 0), at(sources[1], 0), to(destinations[0], 0),
                          to(destinations[1], 0), elements);
    }
    for (std::size_t first = 0; first < elements; first += kBlockElements) {
      const std::size_t rest = elements - first;
      const std::size_t count = rest < kBlockElements ? rest : kBlockElements;
      alignas(64) Stored result[kBlockElements];
      combine_block(sources, source_count, first, count, result);
      for (std::size_t d = 0; d < destination_count; ++d) {
        __builtin_memcpy(to(destinations[d], first), result, count * sizeof(Stored));
      }
    }
  }

 private:
  static const Stored* at(const void* source, std::size_t first) {
    return static_cast<const Stored*>(source) + first;
  }
  static Stored* to(void* destination, std::size_t first) {
    return static_cast<Stored*>(destination) + first;
  }

  /// Combines two ranks in a single pass. A destination equals a source or is disjoint from it, so
  /// elements are independent.
  static void combine_pair(const Stored* a, const Stored* b, Stored* first, Stored* second,
                           std::size_t count) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) {
      const Value sum = Op::apply(Format::load(a[i]), Format::load(b[i]));
      const Stored result = Format::store(Op::finish(sum, 2));
      first[i] = result;
      second[i] = result;
    }
  }

  static void combine_block(const void* const* sources, std::size_t source_count, std::size_t first,
                            std::size_t count, Stored* __restrict result) {
    if (source_count == 2)
      return combine_two(at(sources[0], first), at(sources[1], first), count, result);
    alignas(64) Value sum[kBlockElements];
    const Stored* head = at(sources[0], first);
    for (std::size_t i = 0; i < count; ++i) sum[i] = Format::load(head[i]);
    for (std::size_t s = 1; s < source_count; ++s) {
      const Stored* next = at(sources[s], first);
      for (std::size_t i = 0; i < count; ++i) sum[i] = Op::apply(sum[i], Format::load(next[i]));
    }
    for (std::size_t i = 0; i < count; ++i)
      result[i] = Format::store(Op::finish(sum[i], source_count));
  }

  /// The most common case, without the accumulator.
  static void combine_two(const Stored* a, const Stored* b, std::size_t count,
                          Stored* __restrict result) {
    for (std::size_t i = 0; i < count; ++i) {
      const Value sum = Op::apply(Format::load(a[i]), Format::load(b[i]));
      result[i] = Format::store(Op::finish(sum, 2));
    }
  }
};

/// Sum and product use `Whole`, min and max use `Ordered`, and average uses `Mean` with `MeanOp`.
template <typename Isa, typename Whole, typename Ordered, typename Mean, typename MeanOp>
Combine find_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return Kernel<Isa, Whole, Sum>::combine;
    case ReduceOp::average:
      return Kernel<Isa, Mean, MeanOp>::combine;
    case ReduceOp::product:
      return Kernel<Isa, Whole, Product>::combine;
    case ReduceOp::min:
      return Kernel<Isa, Ordered, Min>::combine;
    case ReduceOp::max:
      return Kernel<Isa, Ordered, Max>::combine;
  }
  return nullptr;
}

template <typename Isa, typename Format>
Combine find_for(ReduceOp op) {
  return find_for<Isa, Format, Format, Format, Average>(op);
}

template <typename Isa>
Combine find_kernel(DataType type, ReduceOp op) {
  using Wrapping32 = Wrapping<std::int32_t, std::uint32_t>;
  using Wrapping64 = Wrapping<std::int64_t, std::uint64_t>;
  switch (type) {
    case DataType::float32:
      return find_for<Isa, Plain<float>>(op);
    case DataType::float64:
      return find_for<Isa, Plain<double>>(op);
    case DataType::float16:
      return find_for<Isa, Float16<Isa>>(op);
    case DataType::bfloat16:
      return find_for<Isa, BFloat16<Isa>>(op);
    case DataType::int32:
      return find_for<Isa, Wrapping32, Plain<std::int32_t>, Widened<std::int32_t>, Average>(op);
    case DataType::int64:
      return find_for<Isa, Wrapping64, Plain<std::int64_t>, Wrapping64, WrappedAverage>(op);
    case DataType::uint8:
      return find_for<Isa, Plain<std::uint8_t>, Plain<std::uint8_t>, Widened<std::uint8_t>,
                      Average>(op);
  }
  return nullptr;
}

}  // namespace ddprun::collectives
