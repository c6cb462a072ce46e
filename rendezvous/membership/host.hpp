// Locates a run's coordinator and store, in this process or on another node. Runs on the executor's
// single thread.
#pragma once

#include "rendezvous/membership/admission.hpp"
#include "rendezvous/membership/settings.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class StoreServer;

namespace membership {

class Coordinator;

/// Current location of the coordinator.
struct Found {
  Coordinator* local = nullptr;  ///< coordinator in this process; null otherwise
  std::optional<StoreEndpoint> endpoint{};
  std::string node{};                    ///< node that hosts it; empty if unknown
  Time term_end = Time::max();           ///< see Connected
  Deadline::Duration connect_timeout{};  ///< timeout for connecting to the endpoint
  std::string problem{};                 ///< reason for an unknown location; a retry may succeed
  std::optional<RunOutcome> outcome{};   ///< set if the run has ended or this node cannot join
  std::string config{};  ///< configuration of the run, if it differs from this node's
  std::string note{};    ///< note for the operator; may be empty
};

class Host {
 public:
  virtual ~Host() = default;  ///< closes all connections and ports

  /// Returns true if coordinator and store are in this process for the whole run.
  virtual bool is_here() const = 0;

  /// Worker store in this process, or null.
  virtual const StoreServer* store() const { return nullptr; }

  /// Note for the operator about the choice of the host; may be empty.
  virtual const std::string& note() const = 0;

  /// Waits until `not_before`, or until the coordinator has changed since the last call.
  virtual boost::asio::awaitable<Found> find(Time not_before) = 0;

  /// Observes a message of the coordinator that find() returned last. In a run with a secret, the
  /// message is authenticated.
  virtual void observe(const CoordinatorMessage& /*message*/) {}

  /// Leaves the run. If possible, another node becomes the host once the workers of all nodes have
  /// ended; a second call does not wait for that.
  virtual void resign() = 0;

  /// Returns when all nodes know the outcome or no longer need this host; immediately if the host
  /// is elsewhere. This node does not become the host afterwards.
  virtual boost::asio::awaitable<void> wait_until_over() = 0;

  /// Lines for the operator at the end of the run: nodes that were refused here, and why.
  virtual std::vector<std::string> refusals() const { return {}; }

  /// Failure that ended the coordinator here, if no other node can take over; otherwise null.
  virtual std::exception_ptr failure() const { return nullptr; }
};

struct HostChoice {
  StoreEndpoint endpoint;  ///< as configured, the same on all nodes
  /// nullopt: this node is the host if the endpoint is an address of this machine and no other
  /// process on it is the host.
  std::optional<bool> is_host;
  Settings settings;
  Admission admission;  ///< its secret must outlive the host
};

/// Creates a host at a fixed endpoint for the whole run. Resolves the endpoint's name, retrying
/// unknown names until the join timeout. Throws Error if this node must be the host and cannot
/// listen there, or if the name stays unknown.
boost::asio::awaitable<std::unique_ptr<Host>> choose_host(boost::asio::any_io_executor executor,
                                                          HostChoice choice, Log log);

/// Returns a note for the operator: the endpoints of the rendezvous and the worker store on this
/// node.
std::string hosting_note(const StoreEndpoint& rendezvous, std::uint16_t store_port);

/// Warns if a coordinator without a secret listens on all addresses of this machine.
void warn_of_openness(const StoreEndpoint& endpoint, const Log& log);

/// Returns the address to listen on among those of the host's name: the one that other nodes use.
inline constexpr const char* kAllAddresses = "0.0.0.0";
std::string bind_address(const std::string& host, const std::vector<std::string>& addresses);

}  // namespace membership
}  // namespace ddprun
