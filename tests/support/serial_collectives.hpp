// What collectives must give, computed the simple way: one thread, element by element, in rank
// order.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>
#include <vector>

namespace ddprun::test {

using Bytes = std::vector<std::byte>;

/// One input of `elements` elements for each rank, the same each time. Values are moderate but not
/// round, so that float sums depend on their order.
std::vector<Bytes> make_inputs(int ranks, std::size_t elements, DataType type);

/// The same, but of small whole numbers, of which every type holds sums exactly: the order does not
/// matter.
std::vector<Bytes> make_whole_inputs(int ranks, std::size_t elements, DataType type);

/// The inputs combined. Half types are combined in float and rounded once. Where the ranks are on
/// several nodes, `on_nodes[n]` of them on node n, those of a node are combined first.
Bytes serial_reduce(const std::vector<Bytes>& inputs, DataType type, ReduceOp op,
                    std::vector<int> on_nodes = {});

/// The part of rank `rank` of something that has one for each of `ranks`.
Bytes part_of(const Bytes& whole, int rank, int ranks);

}  // namespace ddprun::test
