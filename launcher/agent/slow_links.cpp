#include "launcher/agent/slow_links.hpp"

#include "launcher/agent/lower_median.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

/// Blocks for a decision, about 20 s, and those of them that must agree. A step may end in a block,
/// and a save or an evaluation may fill one.
constexpr std::size_t kWindow = 10;
constexpr std::size_t kAgreeing = 8;
/// Blocks with traffic before the window with which it is compared: at most a minute.
constexpr std::size_t kEarlierMin = 5;
constexpr std::size_t kEarlierMax = 30;
/// Fewer bytes in a block say nothing about the speed.
constexpr double kBytesMin = 64 << 10;
/// Part of the time for which the slow link sends. Behind it, the other links of a ring get the
/// data in pieces, and send up to two thirds of the time.
constexpr double kPartMin = 0.75;
/// Speed and measured rate of a slow link, as parts of the usual ones.
constexpr double kSlowPart = 0.5;
/// Seconds; the kernel counts in ticks.
constexpr double kTick = 0.01;
/// After a longer time without samples, this process and perhaps the workers were suspended.
constexpr auto kLinkGap = 6s;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

bool SlowLinkDetector::Block::has_traffic() const {
  return bytes >= kBytesMin && rate > 0;
}

std::vector<SlowLink> SlowLinkDetector::observe(Time now,
                                                const std::vector<LinkConnection>& samples) {
  const auto since = std::exchange(last_time_, now);
  const auto time = since ? std::max<RunClock::duration>(now - *since, 1ms) : 1ms;
  const auto blocks = update(std::chrono::duration_cast<Milliseconds>(time), samples);
  if (time > kLinkGap) {
    for (auto& [inode, connection] : connections_) {
      if (!connection.slowed) connection.window.clear();
    }
    return {};
  }
  auto findings = find_recovered(blocks);
  for (auto& [node, link] : find_slow(blocks)) {
    slow_[node].rank = link.rank;
    findings.push_back(std::move(link));
  }
  return findings;
}

/// Returns the use of each connection that was open at the last sample.
SlowLinkDetector::Blocks SlowLinkDetector::update(Milliseconds time,
                                                  const std::vector<LinkConnection>& samples) {
  Blocks blocks;
  std::map<std::string, double> node_bytes, node_rates;
  Connections open;
  for (const auto& [node, rank, tcp] : samples) {
    const auto known = connections_.find(tcp.inode);
    const bool is_same = known != connections_.end() && known->second.node == node &&
                         known->second.last.sent_bytes <= tcp.sent_bytes;
    if (!is_same) {
      open.emplace(tcp.inode, Connection{.node = node, .rank = rank, .last = tcp});
      continue;
    }
    const auto before = std::exchange(known->second.last, tcp);
    const auto bytes = static_cast<double>(tcp.sent_bytes - before.sent_bytes);
    const double part =
        std::clamp(seconds_of(tcp.sending - before.sending) / seconds_of(time), 0.0, 1.0);
    blocks[tcp.inode] = {
        .time = time, .bytes = bytes, .part = part, .rate = static_cast<double>(tcp.rate)};
    node_bytes[node] += bytes;
    node_rates[node] += bytes * static_cast<double>(tcp.rate);
    open.insert(connections_.extract(known));
  }
  connections_.swap(open);
  replace(open);
  for (auto& [inode, block] : blocks) {
    const double sending = std::max(block.part * seconds_of(time), kTick);
    block.speed = block.bytes / sending;
    const auto& node = connections_.at(inode).node;
    block.node_speed = node_bytes[node] / sending;
    block.node_rate = node_rates[node] / std::max(node_bytes[node], 1.0);
  }
  return blocks;
}

/// Compares the other connections to the nodes with the slow ones that have closed.
void SlowLinkDetector::replace(const Connections& closed) {
  for (const auto& [inode, connection] : closed) {
    if (connection.slowed) slow_[connection.node].closed = connection.slowed;
  }
  for (auto& [inode, connection] : connections_) {
    const auto link = slow_.find(connection.node);
    if (connection.slowed || link == slow_.end() || !link->second.closed) continue;
    connection.slowed = link->second.closed;
    connection.window.clear();
  }
}

/// Returns the links that have become slow, by node, each with its busiest connection.
std::map<std::string, SlowLink> SlowLinkDetector::find_slow(const Blocks& blocks) {
  std::map<std::string, SlowLink> links;
  for (const auto& [inode, block] : blocks) {
    auto& connection = connections_.at(inode);
    if (connection.slowed) continue;
    auto link = judge(connection, block);
    if (!link || slow_.contains(connection.node)) continue;
    const auto [found, is_new] = links.try_emplace(connection.node, *link);
    if (!is_new && found->second.part < link->part) found->second = *link;
  }
  return links;
}

std::vector<SlowLink> SlowLinkDetector::find_recovered(const Blocks& blocks) {
  std::set<std::string> nodes;
  for (const auto& [inode, block] : blocks) {
    auto& connection = connections_.at(inode);
    if (connection.slowed && has_recovered(connection, block)) nodes.insert(connection.node);
  }
  std::vector<SlowLink> links;
  for (const auto& node : nodes) {
    std::vector<Connection*> slow;
    for (auto& [inode, connection] : connections_) {
      if (connection.node == node && connection.slowed) slow.push_back(&connection);
    }
    const auto link = slow_.find(node);
    if (!slow.empty() && !link->second.closed) continue;
    for (auto* connection : slow) {
      connection->slowed.reset();
      connection->window.clear();
    }
    links.push_back({.node = node, .rank = link->second.rank, .is_slow = false});
    slow_.erase(link);
  }
  return links;
}

/// Adds a block of a connection that is not slow. Returns the link if it has become slow.
std::optional<SlowLink> SlowLinkDetector::judge(Connection& connection, const Block& block) {
  auto& [node, rank, last, earlier, window, slowed] = connection;
  window.push_back(block);
  if (window.size() > kWindow) {
    if (window.front().has_traffic()) earlier.push_back(window.front());
    window.pop_front();
  }
  if (earlier.size() > kEarlierMax) earlier.pop_front();
  // The last one of the slow blocks sends, so most connections need no medians.
  if (earlier.size() < kEarlierMin || !block.has_traffic() || block.part < kPartMin)
    return std::nullopt;
  const Usual usual{lower_median(earlier, &Block::speed), lower_median(earlier, &Block::rate),
                    lower_median(earlier, &Block::node_rate)};
  SlowLink link{.node = node, .rank = rank, .usual_speed = usual.speed};
  std::size_t count = 0;
  double bytes = 0, sending = 0;
  for (const auto& each : window) {
    if (!is_slow(each, usual)) continue;
    ++count;
    link.time += each.time;
    bytes += each.bytes;
    sending += each.part * seconds_of(each.time);
  }
  if (count < kAgreeing) return std::nullopt;
  link.part = sending / seconds_of(link.time);
  link.speed = bytes / sending;
  slowed = usual;
  window.clear();
  return link;
}

/// Adds a block of a slow connection. Returns true if it has recovered. Without traffic for most of
/// the time it may still be slow.
bool SlowLinkDetector::has_recovered(Connection& connection, const Block& block) {
  auto& window = connection.window;
  if (!block.has_traffic()) return false;
  window.push_back(block);
  if (window.size() > kWindow) window.pop_front();
  const auto normal = std::count_if(window.begin(), window.end(), [&](const Block& each) {
    return each.speed >= kSlowPart * connection.slowed->speed ||
           each.rate >= kSlowPart * connection.slowed->rate;
  });
  if (std::cmp_less(normal, kAgreeing)) return false;
  connection.slowed.reset();
  window.clear();
  return true;
}

bool SlowLinkDetector::is_slow(const Block& block, const Usual& usual) {
  return block.has_traffic() && block.part >= kPartMin &&
         block.node_speed < kSlowPart * usual.speed && block.rate < kSlowPart * usual.rate &&
         block.node_rate < kSlowPart * usual.node_rate;
}

}  // namespace ddprun
