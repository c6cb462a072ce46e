// How long a preflight may take: ddprun-preflight for each of its steps and, by what follows from
// that, the agent for the whole. It must not give up first, since then nobody could say what was
// amiss.
#pragma once

#include <chrono>

namespace ddprun {

/// For a node's workers to meet, all of which have been started at once.
inline constexpr std::chrono::seconds kPreflightJoinLimit{60};
/// For a device to answer. CUDA takes tenths of a second to be at home on one, and many seconds
/// where a driver wakes all of a node's devices up at once.
inline constexpr std::chrono::seconds kPreflightExamLimit{60};
/// For the ranks of an exchange to connect, and once more for all that they exchange.
inline constexpr std::chrono::seconds kPreflightExchangeLimit{20};
/// With more partners, two bad ranks do not make a good one that has met both of them look bad.
inline constexpr int kPreflightPartnersMax = 3;
/// For what has no limit of its own: processes to start on a busy machine, communicators to be let
/// go of, and ranks to tell each other what they have found.
inline constexpr std::chrono::seconds kPreflightMargin{40};

/// The workers meet, look at their devices, meet for the exchange, and exchange data with each
/// partner and with all. After it, the kernel has a worker that not even its own limits could help.
inline constexpr std::chrono::seconds kPreflightLimit =
    kPreflightJoinLimit + kPreflightExamLimit + kPreflightJoinLimit +
    kPreflightPartnersMax * 2 * kPreflightExchangeLimit + kPreflightExchangeLimit +
    kPreflightMargin;

}  // namespace ddprun
