// Emulates CUDA's matrix products by a warp (mma.h): 16 by 16 items, from bfloat16 to float32. The
// assignment of items to lanes is undocumented on devices, and differs here: column by column.
// Checks the requirements of devices for addresses and strides.
#pragma once

#include "tests/support/cuda_emulation.hpp"

#include <cuda_bf16.h>

#include <type_traits>

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int kRows, int kColumns, int kInner, typename T, typename Layout = void>
struct fragment {
  static_assert(kRows == 16 && kColumns == 16 && kInner == 16);
  static constexpr int num_elements = 8;
  T x[num_elements];
};

/// Calls with the number, row and column of each of the calling lane's items.
template <typename Each>
void for_own_items(const Each& each) {
  for (int i = 0; i < 8; ++i) {
    const int item = ddprun::test::own_lane() * 8 + i;
    each(i, item % 16, item / 16);
  }
}

template <typename T>
void check_place(const T* place, unsigned stride) {
  if (reinterpret_cast<std::uintptr_t>(place) % 32 != 0 || stride * sizeof(T) % 16 != 0)
    throw ddprun::test::KernelError(
        "a matrix at a multiple of less than 32 bytes, or whose rows "
        "are no multiple of 16 bytes apart");
}

template <typename T>
T* item_at(T* first, unsigned stride, int row, int column, bool by_rows) {
  return first + (by_rows ? row * static_cast<int>(stride) + column
                          : column * static_cast<int>(stride) + row);
}

template <typename Fragment, typename T>
void load_items(Fragment& to, const T* from, unsigned stride, bool by_rows) {
  check_place(from, stride);
  for_own_items(
      [&](int i, int row, int column) { to.x[i] = *item_at(from, stride, row, column, by_rows); });
}

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* from, unsigned stride) {
  load_items(to, from, stride, std::is_same_v<Layout, row_major>);
}

inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from,
                             unsigned stride, layout_t layout) {
  load_items(to, from, stride, layout == mem_row_major);
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from,
                              unsigned stride, layout_t layout) {
  check_place(to, stride);
  for_own_items([&](int i, int row, int column) {
    *item_at(to, stride, row, column, layout == mem_row_major) = from.x[i];
  });
}

template <typename Fragment>
void fill_fragment(Fragment& fragment, float value) {
  for (auto& item : fragment.x) item = value;
}

template <typename Left, typename Right>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& result, const Left& left,
              const Right& right, const fragment<accumulator, 16, 16, 16, float>& before) {
  struct Factors {
    const Left& left;
    const Right& right;
  };
  const Factors own{left, right};
  // The others' items are read in place, while the warp waits.
  const auto lanes =
      ddprun::test::gather_lanes({~0U, "mma_sync", ddprun::test::SourceLocation::current()},
                                 reinterpret_cast<std::uintptr_t>(&own));
  const auto of_lane = [&](int item) -> const Factors& {
    return *reinterpret_cast<const Factors*>(lanes[static_cast<std::size_t>(item / 8)]);
  };
  for_own_items([&](int i, int row, int column) {
    float sum = before.x[i];
    for (int k = 0; k < 16; ++k) {
      sum += __bfloat162float(of_lane(k * 16 + row).left.x[row % 8]) *
             __bfloat162float(of_lane(column * 16 + k).right.x[k % 8]);
    }
    result.x[i] = sum;
  });
  __syncwarp();  // all have read the others' items
}

}  // namespace nvcuda::wmma
