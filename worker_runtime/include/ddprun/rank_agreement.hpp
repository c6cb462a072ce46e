// Whether all ranks mean the same by what they are about to do together. Each rank brings a list of
// facts, of which the i-th must be the same everywhere: settings, the layers of a model.
#pragma once

#include <ddprun/process_group.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// One thing that must be equal on all ranks.
struct Fact {
  std::string thing;  ///< "parameter \"fc.weight\""
  std::string value;  ///< that it is: "float32[6, 10]"; zero bytes of either are told as '?'

  bool operator==(const Fact&) const = default;
};

/// All ranks' lists together, which are exchanged only to say where they differ: beyond this, the
/// error does without. Of a LibTorch module with 1,000 parameters, some 400 bytes each, 160 ranks.
inline constexpr std::size_t kAgreementBytesMax = 64 << 20;

/// What is wrong with the lists of all ranks, in words: the first fact in which they differ. Empty
/// if they are all equal. Pure.
std::string describe_disagreement(std::span<const std::vector<Fact>> lists);

/// Blocks until all ranks have called it. Throws the same Error{Errc::usage}, which begins with
/// `subject`, on every rank if the lists differ. One small collective if they do not.
void require_agreement(ProcessGroup& group, const std::string& subject,
                       const std::vector<Fact>& list);

}  // namespace ddprun
