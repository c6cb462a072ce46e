#include "rendezvous/store/waiting_clients.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace ddprun {

namespace {

/// A pair is kept twice, by key and by client, in nodes of hash tables.
std::size_t bytes_of_pair(const std::string& key) {
  constexpr std::size_t kOverhead = 192;
  return 2 * key.size() + kOverhead;
}

std::size_t number_of_distinct(const std::vector<std::string>& keys) {
  return std::unordered_set<std::string_view>(keys.begin(), keys.end()).size();
}

}  // namespace

bool WaitingClients::wait(ClientId client, std::vector<std::string> keys) {
  if (!has_room(keys.size()) && !has_room(number_of_distinct(keys))) return false;
  std::size_t missing = 0;
  for (const auto& key : keys) missing += add(by_key_, key, client) ? 1 : 0;
  pending_[client] = {.keys_missing = missing, .keys = std::move(keys), .is_at_barrier = false};
  return true;
}

bool WaitingClients::wait_at_barrier(ClientId client, const std::string& key) {
  if (!has_room(1)) return false;
  add(at_barrier_, key, client);
  pending_[client] = {.keys_missing = 1, .keys = {key}, .is_at_barrier = true};
  return true;
}

bool WaitingClients::watch(ClientId client, const std::string& key) {
  if (!has_room(1)) return false;
  auto& keys = watched_[client];
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return true;
  keys.push_back(key);
  add(watching_, key, client);
  return true;
}

std::vector<ClientId> WaitingClients::key_created(const std::string& key, std::size_t clients_max) {
  return by_key_.empty() ? std::vector<ClientId>() : tell(by_key_, key, clients_max);
}

std::vector<ClientId> WaitingClients::barrier_opened(const std::string& key) {
  return at_barrier_.empty() ? std::vector<ClientId>() : tell(at_barrier_, key, SIZE_MAX);
}

const std::vector<ClientId>* WaitingClients::watchers(const std::string& key) const {
  if (watching_.empty()) return nullptr;
  const auto found = watching_.find(key);
  return found == watching_.end() ? nullptr : &found->second;
}

std::size_t WaitingClients::clients_at(const std::string& key) const {
  std::size_t clients = 0;
  for (const Index* index : {&by_key_, &at_barrier_, &watching_}) {
    if (index->empty()) continue;
    const auto found = index->find(key);
    if (found != index->end()) clients += found->second.size();
  }
  return clients;
}

void WaitingClients::cancel(ClientId client) {
  const auto found = pending_.find(client);
  if (found == pending_.end()) return;
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  for (const auto& key : pending.keys) {
    remove(pending.is_at_barrier ? at_barrier_ : by_key_, key, client);
  }
}

std::size_t WaitingClients::keys_awaited(ClientId client) const {
  const auto found = pending_.find(client);
  return found == pending_.end() ? 0 : found->second.keys.size();
}

void WaitingClients::drop(ClientId client, std::size_t keys_max) {
  if (const auto found = pending_.find(client); found != pending_.end()) {
    // A wait some of whose keys have been removed is never over: these stay missing.
    Pending& wait = found->second;
    Index& index = wait.is_at_barrier ? at_barrier_ : by_key_;
    keys_max -= remove_last(index, wait.keys, client, keys_max);
    if (wait.keys.empty()) pending_.erase(found);
  }
  if (const auto found = watched_.find(client); found != watched_.end()) {
    remove_last(watching_, found->second, client, keys_max);
    if (found->second.empty()) watched_.erase(found);
  }
}

void WaitingClients::clear() {
  *this = WaitingClients(pairs_max_);
}

/// Returns false if the client was the last to be added at this key: a request may repeat keys.
bool WaitingClients::add(Index& index, const std::string& key, ClientId client) {
  auto& clients = index[key];
  if (!clients.empty() && clients.back() == client) return false;
  clients.push_back(client);
  ++pairs_;
  bytes_ += bytes_of_pair(key);
  return true;
}

/// Replaces a table that becomes empty, as it would keep its buckets.
void WaitingClients::erase(Index& index, Index::iterator key) {
  index.erase(key);
  if (index.empty()) index = Index();
}

void WaitingClients::remove(Index& index, const std::string& key, ClientId client) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  const std::size_t removed = std::erase(found->second, client);
  pairs_ -= removed;
  bytes_ -= removed * bytes_of_pair(key);
  if (found->second.empty()) erase(index, found);
}

/// Removes the client at the last `keys_max` of `keys`, and these; returns their number.
std::size_t WaitingClients::remove_last(Index& index, std::vector<std::string>& keys,
                                        ClientId client, std::size_t keys_max) {
  const std::size_t count = std::min(keys_max, keys.size());
  for (std::size_t i = 0; i < count; ++i) {
    remove(index, keys.back(), client);
    keys.pop_back();
  }
  return count;
}

std::vector<ClientId> WaitingClients::tell(Index& index, const std::string& key,
                                           std::size_t clients_max) {
  const auto found = index.find(key);
  if (found == index.end()) return {};
  auto& clients = found->second;
  std::size_t told = 0;
  std::vector<ClientId> over;
  while (told < clients.size() && over.size() < clients_max) {
    const ClientId client = clients[told++];
    const auto pending = pending_.find(client);
    if (--pending->second.keys_missing > 0) continue;
    pending_.erase(pending);
    over.push_back(client);
  }
  pairs_ -= told;
  bytes_ -= told * bytes_of_pair(key);
  clients.erase(clients.begin(), clients.begin() + static_cast<std::ptrdiff_t>(told));
  if (clients.empty()) erase(index, found);
  return over;
}

}  // namespace ddprun
