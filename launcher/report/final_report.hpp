// The report that a failed run ends with: the root cause first and whole, the others short. Plain
// ASCII around what workers said. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// What the report needs beyond RunFinished.
struct ReportFacts {
  std::string program;
  std::vector<int> stopped;         ///< ranks that ddprun stopped because of the failure
  std::vector<StacksTaken> stacks;  ///< of the last attempt, in order of time
  bool is_for_terminal = true;      ///< false: quoted lines stay whole, for grep
};

/// Lines of at most `columns` characters unless a single word is longer; readable from 60 on.
std::string final_report(const RunFinished& finished, const ReportFacts& facts, int columns);

}  // namespace ddprun
