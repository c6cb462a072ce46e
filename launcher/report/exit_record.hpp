// How a worker ended, as text for the agents of other nodes, whose reports are to tell the same.
// Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// `is_whole` with what only the report of the first failure shows.
std::string to_record(const WorkerExited& exit, bool is_whole);

/// Nothing if the text is no record. Never throws.
std::optional<WorkerExited> from_record(std::string_view record);

}  // namespace ddprun
