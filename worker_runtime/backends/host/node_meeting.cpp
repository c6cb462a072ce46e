#include "worker_runtime/backends/host/node_meeting.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "worker_runtime/backends/forget_key.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <chrono>
#include <sstream>

namespace ddprun::host {

namespace {

// Enough for a responsive store.
constexpr auto kStoreTimeout = std::chrono::seconds(1);
// Random bytes of a name that cannot be guessed.
constexpr std::size_t kTokenBytes = 16;

[[noreturn]] void refuse_layout(const std::string& what) {
  throw Error(Errc::usage, "process group: " + what +
                               " (ddprun sets GROUP_RANK and LOCAL_WORLD_SIZE; set them for "
                               "workers that are started by hand)");
}

std::string missing_ranks(Store& store, const std::vector<std::string>& keys,
                          const RankNames& names) {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    const bool is_there = store.check(std::span(&keys[rank], 1), Deadline::after(kStoreTimeout));
    if (!is_there) missing.push_back(static_cast<int>(rank));
  }
  return names.list(missing);
}

void wait_for_all(Store& store, const std::vector<std::string>& keys, const RankNames& names,
                  Deadline deadline) {
  try {
    store.wait(keys, deadline);
  } catch (const Error& error) {
    if (error.code() != Errc::timeout) throw;
    throw Error(Errc::timeout, "process group: rank(s) " + missing_ranks(store, keys, names) +
                                   " did not come " + deadline.describe());
  }
}

std::string agree_on_token(Store& store, const std::string& key, int rank, const RankNames& names,
                           Deadline deadline) {
  if (rank == 0) {
    std::string token = hexadecimal(random_bytes(kTokenBytes));
    store.set(key, token, deadline);
    return token;
  }
  try {
    return store.get(key, deadline);
  } catch (const Error& error) {
    if (error.code() != Errc::timeout) throw;
    throw Error(Errc::timeout, "process group: rank(s) " + names.list({0}) + " did not come " +
                                   deadline.describe());
  }
}

/// Derives a separate key for each purpose.
Digest derive(const Digest& key, const std::string& purpose) {
  return hmac_sha256(bytes_of(key), purpose);
}

std::string proof_of(const std::string& encoded, int rank, const Digest& key) {
  return hexadecimal(bytes_of(derive(key, "rank " + std::to_string(rank) + " is at " + encoded)));
}

}  // namespace

std::string encode(const Presence& presence, int rank, const Digest& key) {
  std::string text =
      std::to_string(presence.node) + " " + std::to_string(presence.local_world_size) + " " +
      std::to_string(presence.address.port) + " " + std::to_string(presence.message_port);
  for (const auto& address : presence.address.addresses) text += " " + address;
  return proof_of(text, rank, key) + " " + text;
}

Presence decode_presence(const std::string& text, int rank, const Digest& key) {
  const auto space = std::min(text.find(' '), text.size());
  const std::string encoded = text.substr(std::min(space + 1, text.size()));
  if (!are_equal(text.substr(0, space), proof_of(encoded, rank, key))) {
    throw Error(Errc::protocol, "process group: the address of rank " + std::to_string(rank) +
                                    " in the store is not from a worker of this run: another "
                                    "client of the store has changed it");
  }
  std::istringstream stream(encoded);
  Presence presence;
  stream >> presence.node >> presence.local_world_size >> presence.address.port >>
      presence.message_port;
  const bool has_ports = presence.address.port != 0 && presence.message_port != 0;
  if (!stream || presence.local_world_size < 1 || !has_ports)
    throw Error(Errc::protocol, "process group: \"" + encoded + "\" has no address of a worker");
  for (std::string address; stream >> address;) presence.address.addresses.push_back(address);
  return presence;
}

collectives::NodeLayout layout_of(const std::vector<Presence>& workers) {
  std::vector<int> counts;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const bool is_same = rank > 0 && workers[rank].node == workers[rank - 1].node;
    if (!is_same) counts.push_back(0);
    ++counts.back();
    const bool is_last = rank + 1 == workers.size() || workers[rank + 1].node != workers[rank].node;
    if (is_last && counts.back() != workers[rank].local_world_size) {
      refuse_layout("ranks " + std::to_string(rank + 1 - static_cast<std::size_t>(counts.back())) +
                    " to " + std::to_string(rank) + " are on node " +
                    std::to_string(workers[rank].node) + ", which has " +
                    std::to_string(workers[rank].local_world_size) +
                    " workers: ranks of a node must be contiguous");
    }
  }
  return collectives::NodeLayout(counts);
}

NodeMeeting meet_nodes(Store& store, const std::string& name, const std::optional<Digest>& run_key,
                       const WorkerEnv& env, const RankNames& names, const Presence& own,
                       Deadline deadline) {
  NodeMeeting meeting;
  const std::string token_key = name + "/token";
  try {
    const std::string token = agree_on_token(store, token_key, env.rank, names, deadline);
    const Digest none{};
    meeting.key = derive(run_key.value_or(none), "group " + name + " " + token);
    meeting.prefix = name + "/" + hexadecimal(bytes_of(derive(meeting.key, "names")));
    std::vector<std::string> keys;
    keys.reserve(static_cast<std::size_t>(env.world_size));
    for (int rank = 0; rank < env.world_size; ++rank) keys.push_back(presence_key(meeting, rank));
    const auto own_key = keys[static_cast<std::size_t>(env.rank)];
    store.set(own_key, encode(own, env.rank, meeting.key), deadline);
    wait_for_all(store, keys, names, deadline);
    int rank = 0;
    for (const auto& text : store.multi_get(keys, deadline))
      meeting.workers.push_back(decode_presence(text, rank++, meeting.key));
  } catch (...) {
    if (env.rank == 0) forget_key(store.endpoint(), token_key);
    throw;
  }
  // All workers have read it, since they have written keys derived from it.
  if (env.rank == 0) store.erase(token_key, deadline);
  return meeting;
}

Digest key_for(const NodeMeeting& meeting, std::string_view connections) {
  return derive(meeting.key, "connections: " + std::string(connections));
}

std::string presence_key(const NodeMeeting& meeting, int rank) {
  return meeting.prefix + "/rank" + std::to_string(rank);
}

}  // namespace ddprun::host
