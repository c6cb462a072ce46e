#include "launcher/agent/slow_links.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;

/// Blocks for a decision, about 20 s, and those of them that must agree. A step may end in a block,
/// and a save or an evaluation may fill one.
constexpr std::size_t kWindow = 10;
constexpr std::size_t kAgreeing = 8;
/// Blocks before the window with which it is compared: at most a minute.
constexpr std::size_t kEarlierMin = 5;
constexpr std::size_t kEarlierMax = 30;
/// Fewer bytes in a block say nothing about the speed.
constexpr double kBytesMin = 64 << 10;
/// Part of the time for which the slow link sends. Below, other work takes most of the time.
constexpr double kPartMin = 0.5;
/// Speed of a slow link, as a part of the usual one.
constexpr double kSlowPart = 0.5;
/// Measured rate of a slow link, as a part of that of the node's other links, which may be faster
/// by design, such as those within a rack.
constexpr double kSlowRateOfOthers = 0.25;
/// Seconds; the kernel counts in ticks.
constexpr double kTick = 0.01;
/// After a longer time without samples, this process and perhaps the workers were suspended.
constexpr auto kLinkGap = 6s;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Returns the lower median. `values` is not empty.
double median(std::vector<double> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the medians of a member of the blocks with traffic; nullopt if they are fewer than
/// `count_min`.
template <typename Usual, typename Iterator>
std::optional<Usual> usual_of(Iterator begin, Iterator end, std::size_t count_min) {
  std::vector<double> speeds, rates;
  for (auto block = begin; block != end; ++block) {
    if (block->bytes < kBytesMin) continue;
    speeds.push_back(block->speed);
    rates.push_back(block->rate);
  }
  if (speeds.size() < count_min) return std::nullopt;
  return Usual{median(std::move(speeds)), median(std::move(rates))};
}

}  // namespace

std::vector<SlowLink> SlowLinkDetector::observe(Time now,
                                                const std::vector<LinkConnection>& connections) {
  const bool was_suspended = !last_time_ || now - *last_time_ > kLinkGap;
  const auto blocks = blocks_since_last(now, connections);
  for (const auto& connection : connections) histories_.try_emplace(connection.node);
  for (auto& [node, history] : histories_) {
    const auto block = blocks.find(node);
    if (was_suspended || block == blocks.end()) continue;
    history.blocks.push_back(block->second);
    if (history.blocks.size() > kWindow + kEarlierMax) history.blocks.pop_front();
  }
  std::vector<SlowLink> findings;
  if (was_suspended) return findings;
  for (auto& [node, history] : histories_) {
    if (auto finding = judge(node, history)) findings.push_back(std::move(*finding));
  }
  return findings;
}

/// Returns the use of each link since the last sample, of connections that existed then.
std::map<std::string, SlowLinkDetector::Block> SlowLinkDetector::blocks_since_last(
    Time now, const std::vector<LinkConnection>& connections) {
  const auto since = std::exchange(last_time_, now);
  const double time = since ? std::max(seconds_of(now - *since), 0.001) : 1;
  std::map<std::uint64_t, TcpConnection> samples;
  std::map<std::string, Block> blocks;
  for (const auto& [node, rank, tcp] : connections) {
    samples.emplace(tcp.inode, tcp);
    const auto before = last_.find(tcp.inode);
    if (!since || before == last_.end() || before->second.sent_bytes > tcp.sent_bytes) continue;
    Block& block = blocks[node];
    const auto bytes = static_cast<double>(tcp.sent_bytes - before->second.sent_bytes);
    const double part =
        std::clamp(seconds_of(tcp.sending - before->second.sending) / time, 0.0, 1.0);
    block.bytes += bytes;
    block.rate += bytes * static_cast<double>(tcp.rate);
    block.part = std::max(block.part, part);
    block.parts[rank] = std::max(block.parts[rank], part);
  }
  last_ = std::move(samples);
  for (auto& [node, block] : blocks) {
    block.time = Milliseconds(std::lround(1000 * time));
    block.speed = block.bytes / std::max(block.part * time, kTick);
    block.rate /= std::max(block.bytes, 1.0);
  }
  return blocks;
}

/// Returns the median of the node's other links in the window; nullopt if they have no traffic.
std::optional<SlowLinkDetector::Usual> SlowLinkDetector::others_of(const std::string& node) const {
  std::vector<double> speeds, rates;
  for (const auto& [other, history] : histories_) {
    if (other == node || history.slowed || history.blocks.size() < kWindow) continue;
    const auto usual =
        usual_of<Usual>(history.blocks.end() - kWindow, history.blocks.end(), kAgreeing);
    if (!usual) continue;
    speeds.push_back(usual->speed);
    rates.push_back(usual->rate);
  }
  if (speeds.empty()) return std::nullopt;
  return Usual{median(std::move(speeds)), median(std::move(rates))};
}

bool SlowLinkDetector::is_slow(const Block& block, const Usual& usual, double rate_part) {
  return block.bytes >= kBytesMin && block.part >= kPartMin &&
         block.speed < kSlowPart * usual.speed && block.rate < rate_part * usual.rate;
}

std::optional<SlowLink> SlowLinkDetector::judge(const std::string& node, History& history) const {
  if (history.blocks.size() < kWindow) return std::nullopt;
  const auto begin = history.blocks.end() - kWindow, end = history.blocks.end();
  if (history.slowed) {
    const auto normal = std::count_if(begin, end, [&](const Block& block) {
      return block.bytes >= kBytesMin && !is_slow(block, *history.slowed, kSlowPart);
    });
    if (std::cmp_less(normal, kAgreeing)) return std::nullopt;
    history.slowed.reset();
    history.blocks.erase(history.blocks.begin(), begin);  // when it was slow
    return SlowLink{.node = node, .is_slow = false};
  }
  const auto earlier = usual_of<Usual>(history.blocks.begin(), begin, kEarlierMin);
  const auto slower_than = [&](const std::optional<Usual>& usual, double rate_part) {
    std::vector<Block> slow;
    if (usual)
      std::copy_if(begin, end, std::back_inserter(slow),
                   [&](const Block& block) { return is_slow(block, *usual, rate_part); });
    return slow;
  };
  history.slowed = earlier;
  auto reference = SlowLink::Reference::earlier;
  auto slow = slower_than(earlier, kSlowPart);
  if (slow.size() < kAgreeing) {
    history.slowed = others_of(node);
    reference = SlowLink::Reference::other_links;
    slow = slower_than(history.slowed, kSlowRateOfOthers);
  }
  if (slow.size() < kAgreeing) {
    history.slowed.reset();
    return std::nullopt;
  }
  SlowLink link = summary_of(slow);
  link.node = node;
  link.usual_speed = history.slowed->speed;
  link.reference = reference;
  return link;
}

SlowLink SlowLinkDetector::summary_of(const std::vector<Block>& blocks) {
  SlowLink link;
  double bytes = 0, sent = 0;
  std::map<int, double> parts;
  for (const auto& block : blocks) {
    link.time += block.time;
    bytes += block.bytes;
    sent += block.part * seconds_of(block.time);
    for (const auto& [rank, part] : block.parts)
      parts[rank] += part / static_cast<double>(blocks.size());
  }
  link.speed = bytes / sent;
  const auto busiest = std::max_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  link.rank = busiest->first;
  link.part = busiest->second;
  return link;
}

}  // namespace ddprun
