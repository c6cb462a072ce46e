// Gloo's TCP transport with waits that can be ended; closing connections wakes no local thread.
#pragma once

#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>

namespace ddprun {

class GlooWaits;

class GlooDevice : public gloo::transport::tcp::Device {
 public:
  /// Listens and connects at `address`, a host name or address of this machine.
  explicit GlooDevice(const std::string& address);

  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

  /// Makes all current and later waits in its contexts throw gloo::IoException. Any thread.
  void end_waits() noexcept;

 private:
  std::shared_ptr<GlooWaits> waits_;  ///< shared with the buffers, which may outlive this object
};

}  // namespace ddprun
