// A TCP proxy with faults. Its thread forwards data in both directions: delayed, in single bytes or
// not at all.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace ddprun::test {

enum class Fault : std::uint8_t {
  none,
  delay,       ///< delays each piece by 25 to 125 ms, in order
  dribble,     ///< forwards byte by byte, a millisecond apart
  stall_to,    ///< forwards nothing to the target until the fault ends
  stall_from,  ///< forwards nothing from the target until the fault ends
  stall,       ///< forwards nothing in either direction until the fault ends
};

class ChaosProxy {
 public:
  /// Listens at a free port of `address` and connects each client to the target.
  ChaosProxy(const std::string& address, const std::string& target_address, int target_port);
  ChaosProxy(const ChaosProxy&) = delete;
  ChaosProxy& operator=(const ChaosProxy&) = delete;
  ~ChaosProxy();

  int port() const { return port_; }

  /// Sets the fault of all connections.
  void set(Fault fault);

  /// Resets all connections on both sides.
  void reset_connections();

  /// Total number of connections so far.
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
