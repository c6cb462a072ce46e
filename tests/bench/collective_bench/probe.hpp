// What this machine's memory gives the ranks of an all_reduce, if all they did were the sums: each
// reads its share of every rank's values once and writes it once. Nobody can be faster than that
// without a cache that holds it all.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::bench {

class Probe {
 public:
  /// Rank's share of an all_reduce of `bytes` over so many ranks.
  Probe(std::size_t bytes, int ranks);

  void call();

 private:
  std::vector<std::vector<float>> streams_;
};

}  // namespace ddprun::bench
