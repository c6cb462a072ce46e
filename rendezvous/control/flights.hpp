// Contents of a worker's flight recorder as plain values: the last calls of each of its process
// groups. Read by the agent after failures; see flight_recorder.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::control {

enum class FlightState : std::uint8_t { entered, done, failed };

/// A collective, or a message to or from another rank.
struct Flight {
  std::uint64_t number = 0;  ///< among the group's collectives, from 0; a message has that of the
                             ///< collective after it
  bool is_message = false;
  std::string call;         ///< "all_reduce(100 x float32, sum)"; equal on all ranks
  std::uint64_t bytes = 0;  ///< size of these elements
  FlightState state = FlightState::entered;
  std::chrono::nanoseconds entered_ago{0};
  std::chrono::nanoseconds ended_ago{0};  ///< to within some milliseconds; unless it is under way

  bool operator==(const Flight&) const = default;
};

enum class GroupState : std::uint8_t {
  meeting,  ///< waits for its ranks
  open,
  failed,
  left,  ///< left deliberately
};

/// One process group of one worker.
struct GroupFlightRecord {
  std::string name;
  int rank = 0;  ///< rank within the group
  int size = 1;
  std::vector<int> members{};  ///< global ranks of the members; empty: all workers, or too many
  GroupState state = GroupState::open;
  std::uint64_t entered = 0;      ///< number of collectives entered
  std::vector<Flight> flights{};  ///< last calls, oldest first

  bool operator==(const GroupFlightRecord&) const = default;
};

struct WorkerFlights {
  std::vector<GroupFlightRecord> groups{};
  int unrecorded_groups = 0;  ///< groups that were not recorded for lack of room
  /// Description of a value that no recorder writes; `groups` is then empty.
  std::optional<std::string> damage{};

  bool operator==(const WorkerFlights&) const = default;
};

/// Flight records of the worker with this global rank.
struct RankFlights {
  int rank = 0;
  WorkerFlights worker{};

  bool operator==(const RankFlights&) const = default;
};

}  // namespace ddprun::control
