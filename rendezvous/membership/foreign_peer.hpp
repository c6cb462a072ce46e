// Recognises other programs by their bytes: servers at the address of a coordinator, and clients
// that connect to one. Pure.
#pragma once

#include "rendezvous/wire/request.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// Bytes that suffice to recognise each of them.
inline constexpr std::size_t kFirstBytesMax = 16;

/// Returns the end of a sentence about a server that sent these bytes in place of the one that is
/// `wanted`: "is an HTTP server, no rendezvous of ddprun". Empty: it is not recognised.
std::string describe_foreign(std::string_view first_bytes,
                             const std::string& wanted = "rendezvous of ddprun");

/// The remedy for a torchrun at the address of a run of ddprun.
inline constexpr const char* kNoTorchrun =
    "torchrun and ddprun cannot share a run; start every node with ddprun";

/// True if only an agent of torchrun sends this request to a store: for its c10d rendezvous, or for
/// the ranks of its workers.
bool is_of_torchrun(const wire::Request& request);

/// True for the first bytes of a client of PyTorch's store, of any version.
bool is_store_client(std::string_view first_bytes);

}  // namespace ddprun::membership
