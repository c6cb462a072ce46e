// Measures the memory bandwidth of the ranks of an all_reduce: each reads its share of every rank's
// values once and writes it once. Without a cache for all data this is a lower bound of the time.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::bench {

class Probe {
 public:
  /// A rank's share of an all_reduce of `bytes` over this number of ranks.
  Probe(std::size_t bytes, int ranks);

  void call();

 private:
  std::vector<std::vector<float>> streams_;
};

}  // namespace ddprun::bench
