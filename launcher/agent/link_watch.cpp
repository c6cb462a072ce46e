#include "launcher/agent/link_watch.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker_sample.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

/// Limits the memory for a node with very many connections; further ones are ignored.
constexpr std::size_t kConnectionsMax = 16'384;

/// Rank of a connection of another process.
constexpr int kNoRank = -1;

}  // namespace

/// Used by one thread at a time: by a search until it has ended.
struct LinkWatch::Sampler {
  std::map<std::string, std::string> peers;
  std::vector<WorkerSample> workers;
  std::map<std::uint64_t, int> ranks;  ///< by inode of the socket; kNoRank: other processes
  RunClock::time_point time;
  std::vector<LinkConnection> connections;

  /// Inspects the workers' processes only if there are unknown connections to other nodes.
  void run() {
    std::map<std::uint64_t, int> known;
    connections.clear();
    time = RunClock::now();
    auto all = tcp_connections();
    bool is_unknown = false;
    for (auto& tcp : all) {
      const auto node = peers.find(tcp.peer.host);
      if (node == peers.end() || connections.size() == kConnectionsMax) continue;
      const auto rank = ranks.find(tcp.inode);
      is_unknown |= rank == ranks.end();
      if (rank != ranks.end()) known.insert(*rank);
      connections.push_back({.node = node->second, .rank = kNoRank, .tcp = std::move(tcp)});
    }
    ranks = std::move(known);
    if (is_unknown) find_ranks();
    for (auto& connection : connections)
      connection.rank = ranks.emplace(connection.tcp.inode, kNoRank).first->second;
    std::erase_if(connections, [](const auto& each) { return each.rank == kNoRank; });
  }

  void find_ranks() {
    std::map<std::uint64_t, int> owners;
    for (const auto& worker : workers) {
      for (const pid_t pid : with_descendants(worker.pid, kProcessesMax)) {
        for (const auto inode : sockets_of(pid)) owners.emplace(inode, worker.rank);
      }
    }
    for (const auto& connection : connections) {
      const auto owner = owners.find(connection.tcp.inode);
      if (owner != owners.end()) ranks.insert_or_assign(owner->first, owner->second);
    }
  }
};

LinkWatch::LinkWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                     std::map<std::string, std::string> peers,
                     std::function<void(const SlowLink&)> on_slow_link)
    : executor_(executor),
      group_(group),
      on_slow_link_(std::move(on_slow_link)),
      sampler_(std::make_shared<Sampler>()),
      timer_(executor) {
  sampler_->peers = std::move(peers);
  start_timer();
}

void LinkWatch::start_timer() {
  timer_.start(RunClock::now() + SlowLinkDetector::kPeriod, [this] { sample(); });
}

void LinkWatch::sample() {
  start_timer();
  if (search_) return;
  sampler_->workers = group_.sample(false);
  try {
    search_ = std::make_unique<BackgroundSearch>(
        executor_, [sampler = sampler_] { sampler->run(); }, [this] { take_sample(); });
  } catch (const std::exception&) {
    return;  // a later sample may find descriptors and memory again
  }
}

void LinkWatch::take_sample() {
  search_.reset();
  for (const auto& link : detector_.observe(sampler_->time, sampler_->connections))
    on_slow_link_(link);
}

}  // namespace ddprun
