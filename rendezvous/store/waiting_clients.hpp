// Which clients wait for which keys, and which watch them. The part of the store's table that knows
// nothing of values. Pure; no thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddprun {

/// A connection of the store's server. Never used twice.
using ClientId = std::uint64_t;

/// A client has at most one pending wait: for a set of keys, or at a barrier. It may watch any
/// number of keys besides.
class WaitingClients {
 public:
  explicit WaitingClients(std::size_t pairs_max) : pairs_max_(pairs_max) {}

  bool is_waiting(ClientId client) const { return pending_.contains(client); }

  /// True if so many more pairs of a client and a key can be taken.
  bool has_room(std::size_t pairs) const { return pairs_max_ - pairs_ >= pairs; }

  // Each returns false, and changes nothing, if there is no room.
  /// `keys` must be missing; the wait is over when each has been created.
  bool wait(ClientId client, std::vector<std::string> keys);
  bool wait_at_barrier(ClientId client, const std::string& key);
  bool watch(ClientId client, const std::string& key);

  /// Clients whose wait is over because `key` came into being, the first to wait first. When there
  /// are `clients_max` of them no more are told of the key.
  std::vector<ClientId> key_created(const std::string& key, std::size_t clients_max = SIZE_MAX);

  /// Clients who waited at the barrier `key`; their wait is over.
  std::vector<ClientId> barrier_opened(const std::string& key);

  /// Those who watch `key`, or nullptr.
  const std::vector<ClientId>* watchers(const std::string& key) const;

  /// Ends the pending wait of `client`, if any.
  void cancel(ClientId client);

  /// Number of keys in the pending wait of `client`, those created since included.
  std::size_t keys_awaited(ClientId client) const;

  /// Ends the pending wait and the watches of a client that has left. Removes at most `keys_max` of
  /// its keys: to be repeated while it has_keys().
  void drop(ClientId client, std::size_t keys_max);
  bool has_keys(ClientId client) const {
    return pending_.contains(client) || watched_.contains(client);
  }

  void clear();

  /// Pairs of a client and a key.
  std::size_t size() const { return pairs_; }

  /// Upper bound of the clients that a change of this key wakes or notifies.
  std::size_t clients_at(const std::string& key) const;

  /// Memory held, about.
  std::size_t bytes() const { return bytes_; }

 private:
  using Index = std::unordered_map<std::string, std::vector<ClientId>>;

  struct Pending {
    std::size_t keys_missing = 0;
    std::vector<std::string> keys;  ///< all, also those created since
    bool is_at_barrier = false;
  };

  bool add(Index& index, const std::string& key, ClientId client);
  static void erase(Index& index, Index::iterator key);
  void remove(Index& index, const std::string& key, ClientId client);
  std::size_t remove_last(Index& index, std::vector<std::string>& keys, ClientId client,
                          std::size_t keys_max);
  std::vector<ClientId> tell(Index& index, const std::string& key, std::size_t clients_max);

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
