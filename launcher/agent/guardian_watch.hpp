// Puts another guardian in the place of one that was killed, at once. Runs on the agent's one
// thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace ddprun {

class GuardianWatch {
 public:
  /// `containment` and `events` outlive it. Tells of each guardian that was killed.
  GuardianWatch(boost::asio::any_io_executor executor, Containment& containment, EventSink& events);
  ~GuardianWatch();

  /// Begins to watch. To be called once.
  void start();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
