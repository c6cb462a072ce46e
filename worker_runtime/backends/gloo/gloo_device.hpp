// Gloo's TCP transport, whose waits for messages can be ended: closing its connections wakes nobody
// on this side.
#pragma once

#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>

namespace ddprun {

class GlooWaits;

class GlooDevice : public gloo::transport::tcp::Device {
 public:
  /// Listens and connects at `address`, a name or number of this machine.
  explicit GlooDevice(const std::string& address);

  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

  /// Lets all waits in its contexts throw gloo::IoException, those under way and all later ones.
  /// Any thread.
  void end_waits() noexcept;

 private:
  std::shared_ptr<GlooWaits> waits_;  ///< of the buffers, too, which may be there for longer
};

}  // namespace ddprun
