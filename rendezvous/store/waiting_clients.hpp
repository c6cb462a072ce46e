// Clients that wait for or watch keys: the part of the store's table without values. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun {

/// Id of a connection of the store's server; never reused.
using ClientId = std::uint64_t;

/// A client has at most one pending wait: for a set of keys, or at a barrier. It may also watch any
/// number of keys.
class WaitingClients {
 public:
  explicit WaitingClients(std::size_t pairs_max) : pairs_max_(pairs_max) {}

  /// Returns true if the client has a pending wait that is complete; see complete_wait().
  bool is_waiting(ClientId client) const;
  bool has_incomplete_wait(ClientId client) const;

  /// Returns true if this many more pairs of a client and a key fit.
  bool has_room(std::size_t pairs) const { return pairs_max_ - pairs_ >= pairs; }

  // The following functions return false and change nothing if there is no room.
  /// Adds keys, which must be missing, to the wait of `client`, which must not have a complete one;
  /// the first keys begin it. Moves from `keys` if it returns true.
  bool extend_wait(ClientId client, std::span<std::string> keys);
  bool wait_at_barrier(ClientId client, const std::string& key);
  bool watch(ClientId client, const std::string& key);

  /// Completes the wait that extend_wait() has begun: no keys are added, and it ends when all of
  /// them have been created. Returns true if it has already ended.
  bool complete_wait(ClientId client);

  /// Returns the clients whose waits end with the creation of `key`, in the order of their waits;
  /// stops after `clients_max` clients.
  std::vector<ClientId> key_created(const std::string& key, std::size_t clients_max = SIZE_MAX);

  /// Ends and returns the waits of clients at the barrier `key`.
  std::vector<ClientId> barrier_opened(const std::string& key);

  /// Returns the clients that watch `key`, or null.
  const std::vector<ClientId>* watchers(const std::string& key) const;

  /// Ends the pending wait of `client`, if any. Removes at most `keys_max` of its keys and returns
  /// their number; repeat while keys_awaited(). Meanwhile the client is not woken.
  std::size_t cancel(ClientId client, std::size_t keys_max = SIZE_MAX);

  /// Number of keys in the pending wait of `client`, including those created since.
  std::size_t keys_awaited(ClientId client) const;

  /// Ends the pending wait and the watches of a disconnected client. Removes at most `keys_max` of
  /// its keys; repeat while has_keys().
  void drop(ClientId client, std::size_t keys_max);
  bool has_keys(ClientId client) const {
    return pending_.contains(client) || watched_.contains(client);
  }

  void clear();

  /// Returns the number of pairs of a client and a key.
  std::size_t size() const { return pairs_; }

  /// Returns an upper bound of the clients that a change of this key wakes or notifies.
  std::size_t clients_at(const std::string& key) const;

  /// Returns the approximate memory in use.
  std::size_t bytes() const { return bytes_; }

 private:
  /// Not a hash table: rehashing 100,000 keys takes 10 ms.
  using Index = std::map<std::string, std::vector<ClientId>>;

  struct Pending {
    std::size_t keys_missing = 0;   ///< plus one while the wait is incomplete
    std::vector<std::string> keys;  ///< all keys, including those created since
    bool is_at_barrier = false;
    bool is_complete = true;
  };

  bool add(Index& index, const std::string& key, ClientId client);
  void remove(Index& index, const std::string& key, ClientId client);
  std::size_t remove_last(Index& index, std::vector<std::string>& keys, ClientId client,
                          std::size_t keys_max);
  std::vector<ClientId> notify(Index& index, const std::string& key, std::size_t clients_max);

  std::size_t pairs_max_;
  Index by_key_;
  Index at_barrier_;
  Index watching_;
  std::unordered_map<ClientId, Pending> pending_;
  std::unordered_map<ClientId, std::vector<std::string>> watched_;
  std::size_t pairs_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun
