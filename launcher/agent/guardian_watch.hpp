// Immediately replaces a guardian that was killed. Runs on the agent's thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace ddprun {

class GuardianWatch {
 public:
  /// `containment` and `events` outlive this object. Reports each guardian that was killed.
  GuardianWatch(boost::asio::any_io_executor executor, Containment& containment, EventSink& events);
  ~GuardianWatch();

  /// Starts the watch. Must be called once.
  void start();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
