// Expected results of collectives, computed on one thread, element by element, in rank order.
#pragma once

#include <ddprun/buffer.hpp>

#include <cstddef>
#include <vector>

namespace ddprun::test {

using Bytes = std::vector<std::byte>;

/// Returns an input of `elements` elements for each rank, the same each time. Values are moderate
/// but not round, so that float sums depend on their order.
std::vector<Bytes> make_inputs(int ranks, std::size_t elements, DataType type);

/// The same with small integers, whose sums are exact in every type: the order does not matter.
std::vector<Bytes> make_whole_inputs(int ranks, std::size_t elements, DataType type);

/// Returns the reduction of the inputs. Half types are reduced in float and rounded once. With
/// several nodes, `on_nodes[n]` ranks on node n, the ranks of a node are reduced first.
Bytes serial_reduce(const std::vector<Bytes>& inputs, DataType type, ReduceOp op,
                    std::vector<int> on_nodes = {});

/// Returns the part of `rank` of a buffer with a part for each of `ranks`.
Bytes part_of(const Bytes& whole, int rank, int ranks);

}  // namespace ddprun::test
