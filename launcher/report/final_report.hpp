// The report at the end of a failed run: the complete root cause, and other failures in short form.
// ASCII except for quoted text. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Data of the report that RunFinished does not contain.
struct ReportFacts {
  std::string program;
  std::vector<int> stopped;         ///< ranks that ddprun stopped because of the failure
  std::vector<StacksTaken> stacks;  ///< stacks of the last attempt, in order of time
};

/// Returns the report in lines of at most `columns` characters, except for longer words and for
/// lines of the workers. Readable from 60 columns.
std::string final_report(const RunFinished& finished, const ReportFacts& facts, int columns);

}  // namespace ddprun
