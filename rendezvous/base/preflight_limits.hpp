// Time limits of a preflight: of each step of ddprun-preflight, and, derived from them, of the
// whole for the agent, which must not time out first, since the cause would be lost.
#pragma once

#include <chrono>

namespace ddprun {

/// For a node's workers to meet; all start together.
inline constexpr std::chrono::seconds kPreflightJoinLimit{60};
/// For a device to respond. CUDA initialises in tenths of a second, or many seconds if the driver
/// starts all devices of a node at once.
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
