#include "launcher/agent/link_watch.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker_sample.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <set>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

/// Rank of a connection of another process.
constexpr int kNoRank = -1;

/// A connection without a rank after so many scans of the workers' processes belongs to others.
constexpr int kScansMax = 8;

/// Longest time between scans that find no owner of a connection, which start after 2 s.
constexpr auto kPauseMax = std::chrono::seconds(60);

}  // namespace

/// Used by one thread at a time: by a search until it has ended.
struct LinkWatch::Sampler {
  struct Owner {
    int rank = kNoRank;
    int scans = 0;  ///< that have not found it
  };

  std::map<IpAddress, std::string> peers;
  std::vector<WorkerSample> workers;
  std::map<std::uint64_t, Owner> owners;  ///< of the connections, by inode
  std::chrono::seconds pause{1};
  RunClock::time_point next_scan;
  RunClock::time_point time;
  std::vector<LinkConnection> connections;
  bool is_complete = false;  ///< `connections` may be used

  void run() {
    is_complete = false;
    connections.clear();
    time = RunClock::now();
    const auto found = tcp_connections(
        [this](const TcpConnection& tcp) { return tcp.inode != 0 && peers.contains(tcp.peer); });
    if (!found.is_complete) return;
    std::map<std::uint64_t, Owner> open;
    for (const auto& tcp : found.list) open.emplace(tcp.inode, owners[tcp.inode]);
    owners = std::move(open);
    find_ranks();
    for (const auto& tcp : found.list) {
      const int rank = owners.at(tcp.inode).rank;
      if (rank != kNoRank)
        connections.push_back({.node = peers.at(tcp.peer), .rank = rank, .tcp = tcp});
    }
    is_complete = true;
  }

  /// Inspects the workers' processes only if there are connections of unknown owners.
  void find_ranks() {
    std::set<std::uint64_t> unknown;
    for (const auto& [inode, owner] : owners) {
      if (owner.rank == kNoRank && owner.scans < kScansMax) unknown.insert(inode);
    }
    if (unknown.empty() || time < next_scan) return;
    bool is_found = false;
    for (const auto& worker : workers) {
      for (const pid_t pid : with_descendants(worker.pid, kProcessesMax)) {
        for (const auto inode : sockets_of(pid)) {
          if (unknown.erase(inode) == 0) continue;
          owners[inode].rank = worker.rank;
          is_found = true;
        }
      }
    }
    const auto own = sockets_of(::getpid());
    for (const auto inode : unknown) owners[inode].scans += own.contains(inode) ? kScansMax : 1;
    pause = is_found ? std::chrono::seconds(2) : std::min(2 * pause, kPauseMax);
    next_scan = time + pause;
  }
};

LinkWatch::LinkWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                     const std::map<std::string, std::string>& peers,
                     std::function<void(const SlowLink&)> on_slow_link)
    : executor_(executor),
      group_(group),
      on_slow_link_(std::move(on_slow_link)),
      sampler_(std::make_shared<Sampler>()),
      timer_(executor) {
  for (const auto& [text, name] : peers) {
    if (const auto address = parse_address(text)) sampler_->peers.emplace(*address, name);
  }
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
  if (!sampler_->is_complete) return;
  for (const auto& link : detector_.observe(sampler_->time, sampler_->connections))
    on_slow_link_(link);
}

}  // namespace ddprun
