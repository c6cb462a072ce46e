#include "rendezvous/membership/node_order.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace ddprun::membership {

namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

/// Removes and returns the leading digits of `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  const auto digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

std::string_view without_zeros(std::string_view digits) {
  const auto first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view() : digits.substr(first);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto number_a = without_zeros(take_digits(a));
      const auto number_b = without_zeros(take_digits(b));
      // Without leading zeros, the longer number is larger.
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // "node01" and "node1" differ
}

std::vector<std::size_t> order_nodes(const std::vector<OrderedNode>& nodes, std::size_t nodes_max) {
  constexpr int kLast = std::numeric_limits<int>::max();
  const auto place = [](int rank) { return rank < 0 ? kLast : rank; };
  std::vector<std::size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return nodes[i].previous_rank >= 0; });
  order.resize(std::min(order.size(), nodes_max));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    const auto& a = nodes[left];
    const auto& b = nodes[right];
    const auto key_a = std::tuple(place(a.wanted_rank), place(a.previous_rank));
    const auto key_b = std::tuple(place(b.wanted_rank), place(b.previous_rank));
    if (key_a != key_b) return key_a < key_b;
    return natural_less(a.name, b.name);
  });
  return order;
}

}  // namespace ddprun::membership
