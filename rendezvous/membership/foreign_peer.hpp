// Recognises other programs by their bytes: servers at the address of a coordinator, and clients
// that connect to one. Pure.
#pragma once

#include "rendezvous/wire/request.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// Bytes needed to recognise each program.
inline constexpr std::size_t kFirstBytesMax = 16;

/// Returns a predicate of the server that sent these bytes instead of the one `wanted`: "is an HTTP
/// server, not a ddprun rendezvous". Empty if it is not recognised.
std::string describe_foreign(std::string_view first_bytes,
                             const std::string& wanted = "a ddprun rendezvous");

/// Remedy if a torchrun uses the address of a run of ddprun.
inline constexpr const char* kNoTorchrun =
    "torchrun and ddprun cannot share a run; start every node with ddprun";

/// Returns true if only an agent of torchrun sends this request: for its c10d rendezvous, or for
/// the ranks of its workers.
bool is_of_torchrun(const wire::Request& request);

/// Returns true for the first bytes of a PyTorch store client of any version.
bool is_store_client(std::string_view first_bytes);

}  // namespace ddprun::membership
