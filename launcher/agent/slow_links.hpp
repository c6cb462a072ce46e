// Finds links from this node to other nodes over which data takes longer than usual, from samples
// of the workers' TCP connections. Pure: the caller takes the samples, supplies the time and
// reports the findings.
//
// A slow link delays all ranks of a collective alike, but only its sender has data in flight for
// most of the time. The speed alone is no evidence: an acknowledgement that is delayed makes any
// short exchange look slow. So the kernel's own measurement must also have fallen, which it takes
// only while the program provides enough data.
#pragma once

#include "launcher/process/tcp_connections.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A connection of a worker to another node of the run.
struct LinkConnection {
  std::string node;  ///< name of the other node
  int rank = 0;      ///< of the worker
  TcpConnection tcp;
};

/// A link that has become slow or has recovered.
struct SlowLink {
  enum class Reference {
    earlier,      ///< the same link, earlier in the attempt
    other_links,  ///< median of this node's links to other nodes
  };
  std::string node;     ///< name of the other node
  bool is_slow = true;  ///< false: it has recovered; the following members are not set
  int rank = 0;         ///< the one that sends for the longest time
  std::chrono::milliseconds time{0};  ///< for which it was slow
  double part = 0;                    ///< part of it for which the rank sends
  double speed = 0;                   ///< bytes per second while it sends
  double usual_speed = 0;             ///< of the reference
  Reference reference = Reference::earlier;

  bool operator==(const SlowLink&) const = default;
};

class SlowLinkDetector {
 public:
  using Time = RunClock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  /// Period of the samples.
  static constexpr Milliseconds kPeriod{2000};

  /// Takes a sample of the workers' connections to other nodes. Returns the links that have become
  /// slow or have recovered.
  std::vector<SlowLink> observe(Time now, const std::vector<LinkConnection>& connections);

 private:
  /// Use of a link between two samples.
  struct Block {
    Milliseconds time{0};
    double bytes = 0;
    double part = 0;   ///< of the time for which data was sent, of the busiest connection
    double speed = 0;  ///< bytes per second while data was sent
    double rate = 0;   ///< mean TcpConnection::rate, weighted by bytes
    std::map<int, double> parts;  ///< like `part`, by rank
  };
  struct Usual {
    double speed = 0;
    double rate = 0;
  };
  struct History {
    std::deque<Block> blocks;     ///< the last ones are the window
    std::optional<Usual> slowed;  ///< set while the link is slow: the reference
  };

  std::map<std::string, Block> blocks_since_last(Time now,
                                                 const std::vector<LinkConnection>& connections);
  std::optional<Usual> others_of(const std::string& node) const;
  std::optional<SlowLink> judge(const std::string& node, History& history) const;
  static bool is_slow(const Block& block, const Usual& usual, double rate_part);
  static SlowLink summary_of(const std::vector<Block>& blocks);

  std::optional<Time> last_time_;
  std::map<std::uint64_t, TcpConnection> last_;  ///< by inode
  std::map<std::string, History> histories_;     ///< by node
};

}  // namespace ddprun
