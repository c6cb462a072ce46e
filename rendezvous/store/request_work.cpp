#include "rendezvous/store/request_work.hpp"

#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

namespace {

/// Counts the work of each operation; one that names no key takes one unit.
struct CountWork {
  const StoreTable& table;
  std::size_t work_max;

  template <typename Operation>
  std::size_t operator()(const Operation& operation) const {
    if constexpr (requires { operation.keys; }) {
      return 1 + of_all(operation.keys);
    } else if constexpr (requires { operation.pairs; }) {
      return 1 + of_all(operation.pairs);
    } else if constexpr (requires { operation.value; }) {
      return 1 + table.work_of_change(operation.key, operation.value.size());
    } else if constexpr (requires { operation.desired; }) {
      return 1 + table.work_of_change(operation.key, operation.desired.size());
    } else if constexpr (requires { operation.bytes; }) {
      return 1 + table.work_of_change(operation.key, operation.bytes.size());
    } else if constexpr (requires { operation.key; }) {
      return 1 + table.work_of_change(operation.key, 0);
    } else {
      return 1 + (std::is_same_v<Operation, wire::ListKeys> ? table.number_of_keys() : 0);
    }
  }

  std::size_t of(const std::string& key) const { return table.work_at(key); }
  std::size_t of(const std::pair<std::string, std::string>& pair) const {
    return table.work_of_change(pair.first, pair.second.size());
  }

  template <typename Item>
  std::size_t of_all(const std::vector<Item>& items) const {
    std::size_t work = 0;
    for (auto item = items.begin(); item != items.end() && work <= work_max; ++item)
      work += of(*item);
    return work;
  }

  /// Removes and returns the items beyond `work_max`.
  template <typename Item>
  std::vector<Item> take_rest(std::vector<Item>& items) const {
    std::size_t work = 0;
    auto end = items.begin();
    while (end != items.end() && work < work_max) work += of(*end++);
    std::vector<Item> rest(std::make_move_iterator(end), std::make_move_iterator(items.end()));
    items.erase(end, items.end());
    return rest;
  }
};

}  // namespace

std::size_t request_work(const StoreTable& table, ClientId client, const wire::Request& request,
                         wire::Dialect dialect, std::size_t work_max) {
  return std::visit(CountWork{table, work_max}, request) +
         (ends_wait(request, dialect) ? table.work_of_cancel(client) : 0);
}

std::optional<wire::Request> split_request(const StoreTable& table, wire::Request& request,
                                           std::size_t work_max) {
  const CountWork count{table, work_max};
  if (auto* const get = std::get_if<wire::MultiGet>(&request)) {
    wire::MultiGet rest{count.take_rest(get->keys)};
    if (!rest.keys.empty()) return rest;
  } else if (auto* const set = std::get_if<wire::MultiSet>(&request)) {
    wire::MultiSet rest{count.take_rest(set->pairs)};
    if (!rest.pairs.empty()) return rest;
  }
  return std::nullopt;
}

}  // namespace ddprun
