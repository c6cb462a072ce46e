// Like launches.hpp, for operations on many arrays at once: optimizers, and sums over whole arrays.
#pragma once

#include "trainers/compute/adamw_pace.hpp"
#include "trainers/gpt2/cuda/kernels/pieces.cuh"
#include "trainers/gpt2/cuda/launches.hpp"

#include <cstdint>
#include <span>

namespace trainer::cuda {

inline constexpr int kPieceWidth = 4;
static_assert(kTile<1> == kSmallestTile);

/// Collects pieces, and calls flush(table) whenever a kernel's table is full.
template <typename Each, typename Flush>
class PieceCollector {
 public:
  explicit PieceCollector(const Flush& flush) : flush_(flush) {}

  template <typename... Pointers>
  cudaError_t add(const Each& each, std::size_t elements, const Pointers*... arrays) {
    if (elements == 0) return cudaSuccess;
    const cudaError_t error = table_.count == kPiecesMax<Each> ? flush() : cudaSuccess;
    const bool is_wide = can_be_wide<kPieceWidth>(elements, arrays...);
    table_.pieces[table_.count++] = {each, elements, table_.tiles, is_wide};
    table_.tiles += blocks_for(elements, is_wide ? kTile<kPieceWidth> : kTile<1>);
    return error;
  }

  /// Launches the remaining pieces.
  cudaError_t flush() {
    if (table_.count == 0) return cudaSuccess;
    const cudaError_t error = flush_(table_);
    table_.count = 0;
    table_.tiles = 0;
    return error;
  }

 private:
  const Flush& flush_;
  PieceTable<Each> table_{};
};

/// Adds each operation by add(collector, operation) and launches the kernels.
template <typename Each, typename Operation, typename Add, typename Launch>
cudaError_t for_each_piece(std::span<const Operation> operations, const Add& add,
                           const Launch& launch) {
  const auto flush = [&](const PieceTable<Each>& table) {
    return launch(pieces_kernel<kPieceWidth, Each>, dim3(table.tiles), dim3(kThreads), table);
  };
  PieceCollector<Each, decltype(flush)> collector(flush);
  for (const Operation& o : operations) {
    const cudaError_t error = add(collector, o);
    if (error != cudaSuccess) return error;
  }
  return collector.flush();
}

/// Calls use() with each run of consecutive operations that are alike.
template <typename Operation, typename Alike, typename Use>
cudaError_t for_each_group(std::span<const Operation> all, const Alike& alike, const Use& use) {
  cudaError_t error = cudaSuccess;
  while (!all.empty() && error == cudaSuccess) {
    std::size_t count = 1;
    while (count < all.size() && alike(all[0], all[count])) ++count;
    error = use(all.first(count));
    all = all.subspan(count);
  }
  return error;
}

/// Calls use(value's type, gradient's type, operations) with each run of consecutive operations
/// with equal types.
template <typename Operation, typename Use>
cudaError_t for_each_type(std::span<const Operation> all, const Use& use) {
  const auto alike = [](const Operation& left, const Operation& right) {
    return left.values.type == right.values.type && left.gradient.type == right.gradient.type;
  };
  return for_each_group(all, alike, [&](std::span<const Operation> group) {
    return with_type(group[0].values.type, [&](auto type) {
      return with_type(group[0].gradient.type,
                       [&](auto gradient_type) { return use(type, gradient_type, group); });
    });
  });
}

/// Returns the trained values: the master copy, or the values themselves.
template <typename Operation>
float* master_of(const Operation& o) {
  return values_of<float>(o.master.data == nullptr ? o.values : o.master);
}

inline AdamWFactors factors_of(const AdamW& o) {
  const AdamWPace pace = adamw_pace(o);
  return {.rate = static_cast<float>(pace.rate),
          .inverse_correction = static_cast<float>(pace.inverse_correction),
          .beta1 = static_cast<float>(o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .epsilon = static_cast<float>(o.epsilon),
          .norm_max = static_cast<float>(o.gradient_norm_max),
          .squared_norm = values_of<const double>(o.squared_norm),
          .pace = values_of<const AdamWPace>(o.pace),
          .decay = o.pace.data == nullptr ? pace.learning_rate * o.weight_decay : o.weight_decay};
}

template <typename Launch>
cudaError_t start(const std::span<const AdamW>& all, void*, const Launch& launch) {
  return for_each_type(all, [&](auto type, auto gradient_type, std::span<const AdamW> group) {
    using T = decltype(type);
    using Gradient = decltype(gradient_type);
    const auto add = [](auto& collector, const AdamW& o) {
      const AdamWEach<T, Gradient> each{values_of<T>(o.values),          master_of(o),
                                        values_of<Gradient>(o.gradient), values_of<float>(o.mean),
                                        values_of<float>(o.square),      factors_of(o)};
      return collector.add(each, o.elements, each.values, each.master, each.gradient, each.mean,
                           each.square);
    };
    return for_each_piece<AdamWEach<T, Gradient>>(group, add, launch);
  });
}

template <typename Launch>
cudaError_t start(const std::span<const Sgd>& all, void*, const Launch& launch) {
  return for_each_type(all, [&](auto type, auto gradient_type, std::span<const Sgd> group) {
    using T = decltype(type);
    using Gradient = decltype(gradient_type);
    const auto add = [](auto& collector, const Sgd& o) {
      const SgdEach<T, Gradient> each{values_of<T>(o.values),
                                      master_of(o),
                                      values_of<Gradient>(o.gradient),
                                      o.momentum == 0 ? nullptr : values_of<float>(o.velocity),
                                      static_cast<float>(o.learning_rate),
                                      static_cast<float>(o.momentum)};
      return collector.add(each, o.elements, each.values, each.master, each.gradient,
                           each.velocity);
    };
    return for_each_piece<SgdEach<T, Gradient>>(group, add, launch);
  });
}

/// For arrays of the same type with a common total.
template <bool kSquares, typename T, typename Launch>
cudaError_t sum_all(std::span<const AddSum> group, double* partial, const Launch& launch) {
  unsigned tiles = 0;
  const auto flush = [&](const PieceTable<SumEach<T>>& table) {
    double* const own = partial + tiles;
    tiles += table.tiles;
    return launch(sum_pieces_kernel<kPieceWidth, kSquares, T>, dim3(table.tiles), dim3(kThreads),
                  table, own);
  };
  PieceCollector<SumEach<T>, decltype(flush)> collector(flush);
  cudaError_t error = cudaSuccess;
  for (const AddSum& o : group) {
    const SumEach<T> each{values_of<T>(o.values)};
    if (error == cudaSuccess) error = collector.add(each, o.elements, each.values);
  }
  if (error == cudaSuccess) error = collector.flush();
  if (error != cudaSuccess || tiles == 0) return error;
  return launch(add_partial_sums_kernel<double>, dim3(1), dim3(kThreads), tiles,
                static_cast<const double*>(partial), values_of<double>(group[0].total));
}

template <typename Launch>
cudaError_t start(const std::span<const AddSum>& all, void* workspace, const Launch& launch) {
  auto* partial = static_cast<double*>(workspace);
  const auto alike = [](const AddSum& left, const AddSum& right) {
    return left.values.type == right.values.type && left.total.data == right.total.data &&
           left.squares == right.squares;
  };
  return for_each_group(all, alike, [&](std::span<const AddSum> group) {
    return with_type(group[0].values.type, [&](auto type) {
      using T = decltype(type);
      return group[0].squares ? sum_all<true, T>(group, partial, launch)
                              : sum_all<false, T>(group, partial, launch);
    });
  });
}

}  // namespace trainer::cuda
