// Checks that all ranks have the same settings, such as the layers of a model. Each rank has a list
// of facts, whose i-th element must be equal on all ranks.
#pragma once

#include <ddprun/process_group.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// A value that must be equal on all ranks.
struct Fact {
  std::string thing;  ///< "parameter \"fc.weight\""
  std::string value;  ///< "float32[6, 10]"; zero bytes of either are shown as '?'

  bool operator==(const Fact&) const = default;
};

/// Maximum size of all ranks' lists, which are exchanged only to describe a difference; beyond it,
/// the error has no details. Enough for 160 ranks with 1,000 parameters of 400 bytes each.
inline constexpr std::size_t kAgreementBytesMax = 64 << 20;

/// Returns a description of the first fact in which the lists differ; empty if they are equal.
/// Pure.
std::string describe_disagreement(std::span<const std::vector<Fact>> lists);

/// Throws the same Error{Errc::usage}, starting with `subject`, on every rank if the lists differ.
/// A collective, which blocks; one small exchange if the lists are equal.
void require_agreement(ProcessGroup& group, const std::string& subject,
                       const std::vector<Fact>& list);

}  // namespace ddprun
