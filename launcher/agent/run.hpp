// A run as this node's agent sees it, whoever decides what follows an attempt: lone_run.hpp, where
// this node is all there is, or shared_run.hpp. Runs on the agent's one thread.
#pragma once

#include "launcher/report/event.hpp"

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun {

class Run {
 public:
  /// Gets the port of the store, once it is known. Called once, before anything else is told.
  using StartNotice = std::function<void(std::uint16_t store_port)>;

  virtual ~Run() = default;

  /// To be called once. Returns how the run has ended. Throws Error if it cannot start; what goes
  /// wrong with the agent later is an end like others (RunResult::agent_failed).
  virtual boost::asio::awaitable<RunFinished> run(StartNotice on_start) = 0;

  // The following may be called at any time.

  /// To the workers, if there are any.
  virtual void forward(int signal) = 0;

  /// Tells of the stacks of all workers, which go on. False if there are none.
  virtual bool take_stacks(const std::string& reason) = 0;

  /// The first time: stops the workers in an orderly way, and the run ends; then kills them.
  virtual void stop(int signal, bool is_first) = 0;

  /// Why it must not be suspended; empty if it may be.
  virtual std::string objection_to_suspension() const = 0;
};

}  // namespace ddprun
