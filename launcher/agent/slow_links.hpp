// Finds links from this node to other nodes over which data takes longer than before, from samples
// of the workers' TCP connections. Pure: the caller takes the samples, supplies the time and
// reports the findings.
//
// A slow link delays all ranks of a collective alike, but only its sender has data in flight for
// most of the time. The speed alone is no evidence: an acknowledgement that is delayed makes any
// short exchange look slow. So the kernel's own measurement must also have fallen, which it takes
// only while the program provides enough data. A connection is compared with itself: others may
// never have had enough data for a measurement.
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
  std::string node;     ///< name of the other node
  int rank = 0;         ///< the one that sends for the longest time when the link becomes slow
  bool is_slow = true;  ///< false: it has recovered; the following members are not set
  std::chrono::milliseconds time{0};  ///< for which it was slow
  double part = 0;                    ///< part of it for which the rank sends
  double speed = 0;                   ///< bytes per second while it sends
  double usual_speed = 0;             ///< the same, before

  bool operator==(const SlowLink&) const = default;
};

class SlowLinkDetector {
 public:
  using Time = RunClock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  /// Period of the samples.
  static constexpr Milliseconds kPeriod{2000};

  /// Takes a sample of all connections of the workers to other nodes. Returns the links that have
  /// become slow or have recovered. A link is slow from the first connection that becomes slow
  /// until all of them have recovered. If one has closed, until any connection to the node has
  /// recovered by the reference of the closed one.
  std::vector<SlowLink> observe(Time now, const std::vector<LinkConnection>& samples);

 private:
  /// Use of a connection between two samples.
  struct Block {
    Milliseconds time{0};
    double bytes = 0;
    double part = 0;        ///< of the time for which data was sent
    double speed = 0;       ///< bytes per second while data was sent
    double node_speed = 0;  ///< the same, with the bytes of all connections to the node
    double rate = 0;        ///< TcpConnection::rate
    double node_rate = 0;   ///< mean of all connections to the node, weighted by bytes

    bool has_traffic() const;
  };
  struct Usual {
    double speed = 0;
    double rate = 0;
    double node_rate = 0;
  };
  struct Connection {
    std::string node;
    int rank = 0;
    TcpConnection last;
    std::deque<Block> earlier;    ///< those before the window that have traffic
    std::deque<Block> window;     ///< consecutive ones; while slow, those that have traffic
    std::optional<Usual> slowed;  ///< set while the connection is slow: the reference
  };
  struct State {
    int rank = 0;                 ///< of the report
    std::optional<Usual> closed;  ///< reference of a slow connection that has closed
  };
  using Blocks = std::map<std::uint64_t, Block>;  ///< by inode
  using Connections = std::map<std::uint64_t, Connection>;

  Blocks update(Milliseconds time, const std::vector<LinkConnection>& samples);
  void replace(const Connections& closed);
  std::map<std::string, SlowLink> find_slow(const Blocks& blocks);
  std::vector<SlowLink> find_recovered(const Blocks& blocks);
  static std::optional<SlowLink> judge(Connection& connection, const Block& block);
  static bool has_recovered(Connection& connection, const Block& block);
  static bool is_slow(const Block& block, const Usual& usual);

  std::optional<Time> last_time_;
  Connections connections_;            ///< by inode
  std::map<std::string, State> slow_;  ///< slow links, by node
};

}  // namespace ddprun
