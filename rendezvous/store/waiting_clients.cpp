#include "rendezvous/store/waiting_clients.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace ddprun {

namespace {

/// A pair is stored twice, by key and by client, in map nodes.
std::size_t bytes_of_pair(const std::string& key) {
  constexpr std::size_t kOverhead = 192;
  return 2 * key.size() + kOverhead;
}

std::size_t number_of_distinct(std::span<const std::string> keys) {
  return std::unordered_set<std::string_view>(keys.begin(), keys.end()).size();
}

}  // namespace

bool WaitingClients::is_waiting(ClientId client) const {
  const auto found = pending_.find(client);
  return found != pending_.end() && found->second.is_complete;
}

bool WaitingClients::has_incomplete_wait(ClientId client) const {
  const auto found = pending_.find(client);
  return found != pending_.end() && !found->second.is_complete;
}

bool WaitingClients::extend_wait(ClientId client, std::span<std::string> keys) {
  if (!has_room(keys.size()) && !has_room(number_of_distinct(keys))) return false;
  const auto [found, is_new] = pending_.try_emplace(client);
  Pending& wait = found->second;
  if (is_new) wait = {.keys_missing = 1, .keys = {}, .is_at_barrier = false, .is_complete = false};
  for (const auto& key : keys) wait.keys_missing += add(by_key_, key, client) ? 1 : 0;
  wait.keys.insert(wait.keys.end(), std::make_move_iterator(keys.begin()),
                   std::make_move_iterator(keys.end()));
  return true;
}

bool WaitingClients::complete_wait(ClientId client) {
  const auto found = pending_.find(client);
  found->second.is_complete = true;
  if (--found->second.keys_missing > 0) return false;
  pending_.erase(found);
  return true;
}

bool WaitingClients::wait_at_barrier(ClientId client, const std::string& key) {
  if (!has_room(1)) return false;
  add(at_barrier_, key, client);
  pending_[client] = {.keys_missing = 1, .keys = {key}, .is_at_barrier = true, .is_complete = true};
  return true;
}

bool WaitingClients::watch(ClientId client, const std::string& key) {
  if (!has_room(1)) return false;
  // A key has far fewer watchers than a client may have watches.
  const auto* clients = watchers(key);
  const bool is_watching =
      clients != nullptr && std::find(clients->begin(), clients->end(), client) != clients->end();
  if (is_watching) return true;
  watched_[client].push_back(key);
  add(watching_, key, client);
  return true;
}

std::vector<ClientId> WaitingClients::key_created(const std::string& key, std::size_t clients_max) {
  return by_key_.empty() ? std::vector<ClientId>() : notify(by_key_, key, clients_max);
}

std::vector<ClientId> WaitingClients::barrier_opened(const std::string& key) {
  return at_barrier_.empty() ? std::vector<ClientId>() : notify(at_barrier_, key, SIZE_MAX);
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

std::size_t WaitingClients::cancel(ClientId client, std::size_t keys_max) {
  const auto found = pending_.find(client);
  if (found == pending_.end()) return 0;
  Pending& wait = found->second;
  ++wait.keys_missing;  // so that removing keys never ends the wait
  Index& index = wait.is_at_barrier ? at_barrier_ : by_key_;
  const std::size_t removed = remove_last(index, wait.keys, client, keys_max);
  if (wait.keys.empty()) pending_.erase(found);
  return removed;
}

std::size_t WaitingClients::keys_awaited(ClientId client) const {
  const auto found = pending_.find(client);
  return found == pending_.end() ? 0 : found->second.keys.size();
}

void WaitingClients::drop(ClientId client, std::size_t keys_max) {
  keys_max -= cancel(client, keys_max);
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

void WaitingClients::remove(Index& index, const std::string& key, ClientId client) {
  const auto found = index.find(key);
  if (found == index.end()) return;
  const std::size_t removed = std::erase(found->second, client);
  pairs_ -= removed;
  bytes_ -= removed * bytes_of_pair(key);
  if (found->second.empty()) index.erase(found);
}

/// Removes the client from the last `keys_max` of `keys`, and these keys; returns their number.
std::size_t WaitingClients::remove_last(Index& index, std::vector<std::string>& keys,
                                        ClientId client, std::size_t keys_max) {
  const std::size_t count = std::min(keys_max, keys.size());
  for (std::size_t i = 0; i < count; ++i) {
    remove(index, keys.back(), client);
    keys.pop_back();
  }
  return count;
}

std::vector<ClientId> WaitingClients::notify(Index& index, const std::string& key,
                                             std::size_t clients_max) {
  const auto found = index.find(key);
  if (found == index.end()) return {};
  auto& clients = found->second;
  std::size_t notified = 0;
  std::vector<ClientId> over;
  while (notified < clients.size() && over.size() < clients_max) {
    const ClientId client = clients[notified++];
    const auto pending = pending_.find(client);
    if (--pending->second.keys_missing > 0) continue;
    pending_.erase(pending);
    over.push_back(client);
  }
  pairs_ -= notified;
  bytes_ -= notified * bytes_of_pair(key);
  clients.erase(clients.begin(), clients.begin() + static_cast<std::ptrdiff_t>(notified));
  if (clients.empty()) index.erase(found);
  return over;
}

}  // namespace ddprun
