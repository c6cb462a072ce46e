// Time limits of a preflight: for each step of ddprun-preflight, and for the whole. The agent uses
// the latter, which is longer than the steps together, so that the cause of a timeout is reported.
#pragma once

#include <chrono>

namespace ddprun {

/// Limit for a node's workers to connect. All start at the same time.
inline constexpr std::chrono::seconds kPreflightJoinLimit{60};
/// Limit for a device to respond. CUDA initialises within a second, or within many seconds if the
/// driver starts all devices of a node at the same time.
inline constexpr std::chrono::seconds kPreflightExamLimit{60};
/// Limit for the ranks of an exchange to connect, and limit for the exchanges.
inline constexpr std::chrono::seconds kPreflightExchangeLimit{20};
/// Maximum number of partners. With fewer, two bad ranks can make a good rank look bad.
inline constexpr int kPreflightPartnersMax = 3;
/// Limit for steps without a separate limit: start of processes on a busy machine, destruction of
/// communicators, and exchange of results between ranks.
inline constexpr std::chrono::seconds kPreflightMargin{40};

/// Limit of the whole: connecting, checking devices, connecting for the exchange, and exchanges
/// with each partner and with all. A worker that exceeds it hangs in the kernel.
inline constexpr std::chrono::seconds kPreflightLimit =
    kPreflightJoinLimit + kPreflightExamLimit + kPreflightJoinLimit +
    kPreflightPartnersMax * 2 * kPreflightExchangeLimit + kPreflightExchangeLimit +
    kPreflightMargin;

}  // namespace ddprun
