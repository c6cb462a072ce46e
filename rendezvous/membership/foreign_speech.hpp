// Which other program answers where a coordinator of a run is looked for, or connects to one, as
// far as its bytes show. Pure.
#pragma once

#include "rendezvous/wire/request.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// So many bytes tell all that are known.
inline constexpr std::size_t kFirstWordsMax = 16;

/// The end of a sentence about it, "is an HTTP server, no rendezvous of ddprun", by what was
/// `wanted` there; empty: it is nobody known.
std::string describe_foreign(std::string_view first_bytes,
                             const std::string& wanted = "rendezvous of ddprun");

/// What to do about a torchrun that meets a run of ddprun.
inline constexpr const char* kNoTorchrun =
    "torchrun and ddprun cannot share a run; start every node with ddprun";

/// True if only an agent of torchrun makes this request to a store: for its c10d rendezvous, or for
/// the ranks of its workers.
bool is_of_torchrun(const wire::Request& request);

/// True for the first bytes of a client of PyTorch's store, of any version.
bool is_store_client(std::string_view first_bytes);

}  // namespace ddprun::membership
