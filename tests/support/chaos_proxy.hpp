// A TCP proxy that mistreats the connections through it: a thread of its own that hands on what it
// reads from either side, late, in single bytes or not at all.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace ddprun::test {

enum class Fault : std::uint8_t {
  none,
  delay,       ///< each piece by 25 to 125 ms, in order
  dribble,     ///< byte by byte, a millisecond apart
  stall_to,    ///< nothing reaches the target; what was sent arrives when that is over
  stall_from,  ///< nothing comes back from it
  stall,       ///< neither
};

class ChaosProxy {
 public:
  /// Listens at a free port of `address` and connects each client to the target.
  ChaosProxy(const std::string& address, const std::string& target_address, int target_port);
  ChaosProxy(const ChaosProxy&) = delete;
  ChaosProxy& operator=(const ChaosProxy&) = delete;
  ~ChaosProxy();

  int port() const { return port_; }

  /// From now on, for all connections.
  void set(Fault fault);

  /// Ends all connections by RST on both sides.
  void reset_connections();

  /// How many there were in all.
  int connections() const { return connections_; }

 private:
  class Loop;

  std::atomic<Fault> fault_{Fault::none};
  std::atomic<bool> must_reset_{false};
  std::atomic<bool> must_stop_{false};
  std::atomic<int> connections_{0};
  int listener_ = -1;
  int port_ = 0;
  int wake_ = -1;  ///< an eventfd
  std::thread thread_;
};

}  // namespace ddprun::test
