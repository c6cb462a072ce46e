// Estimates the work of requests to the store and splits long ones, so that the server can serve
// other clients before them and between their parts. Pure.
#pragma once

#include "rendezvous/store/store_table.hpp"
#include "rendezvous/wire/request.hpp"

#include <cstddef>
#include <optional>

namespace ddprun {

/// Estimates how long `table` takes to carry out the request, in units of 0.1 to 0.2 us: one for
/// each key and KiB of values, more for each client that is woken or notified. Counts the keys of
/// the client's own wait if the request ends it. Stops counting above `work_max`.
std::size_t request_work(const StoreTable& table, ClientId client, const wire::Request& request,
                         wire::Dialect dialect, std::size_t work_max);

/// Removes from a MULTI_GET or MULTI_SET the keys beyond `work_max` and returns a request with
/// them; both in succession equal the original, but other clients' requests may come in between.
/// A MULTI_SET is then not atomic: the largest would take about 50 ms.
/// Returns nullopt if the request is within `work_max` or of another operation.
std::optional<wire::Request> split_request(const StoreTable& table, wire::Request& request,
                                           std::size_t work_max);

}  // namespace ddprun
