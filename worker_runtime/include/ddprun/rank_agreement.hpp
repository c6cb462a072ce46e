// Checks that all ranks have the same settings, such as the layers of a model. Each rank has a list
// of facts; element i must be equal on all ranks.
#pragma once

#include <ddprun/process_group.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// A value that must be equal on all ranks.
struct Fact {
  std::string thing;  ///< such as "parameter \"fc.weight\""
  std::string value;  ///< "float32[6, 10]"; zero bytes in both fields print as '?'

  bool operator==(const Fact&) const = default;
};

/// Maximum total size of all ranks' lists, exchanged only to describe a difference. Beyond it,
/// errors have no details. Enough for 160 ranks with 1,000 parameters of 400 bytes each.
inline constexpr std::size_t kAgreementBytesMax = 64 << 20;

/// Returns a description of the first fact that differs between the lists; empty if the lists are
/// equal. Pure.
std::string describe_disagreement(std::span<const std::vector<Fact>> lists);

/// If the lists differ, throws the same Error{Errc::usage} on every rank, starting with `subject`.
/// A collective; blocks. Equal lists need only one small exchange.
void require_agreement(ProcessGroup& group, const std::string& subject,
                       const std::vector<Fact>& list);

}  // namespace ddprun
