// Where the coordinator and the store of a run are: beside this agent or beside another. Runs on
// the executor's one thread.
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

/// Where this node's agent reaches the coordinator now.
struct Found {
  Coordinator* local = nullptr;  ///< to be joined without a connection
  std::optional<StoreEndpoint> endpoint{};
  std::string node{};                    ///< that hosts it, where that is known
  Time term_end = Time::max();           ///< as in Connected
  Deadline::Duration connect_timeout{};  ///< for connecting there
  std::string problem{};                 ///< if it is not known; trying again may help
  std::optional<RunOutcome> outcome{};   ///< the run has ended, or this node cannot take part
  std::string config{};                  ///< of the run, if this node has another one
  std::string note{};                    ///< for the operator; may be empty
};

class Host {
 public:
  virtual ~Host() = default;  ///< closes what is open

  /// True if coordinator and store are part of this process for as long as the run lasts.
  virtual bool is_here() const = 0;

  /// The store of the workers, while it is part of this process; else null.
  virtual const StoreServer* store() const { return nullptr; }

  /// What operators should know of the choice; may be empty.
  virtual const std::string& note() const = 0;

  /// Waits until `not_before`, or less if the coordinator is another one than at the last time.
  virtual boost::asio::awaitable<Found> find(Time not_before) = 0;

  /// A message of the coordinator that was found last, which has proved itself in a run with a
  /// secret.
  virtual void observe(const CoordinatorMessage& /*message*/) {}

  /// This node leaves the run. Where that can be, another node becomes the host, once the workers
  /// of all nodes have ended; at the second call it is not waited for that any more.
  virtual void resign() = 0;

  /// Returns when all nodes have heard how the run ended, or need this one no more; at once if
  /// it is hosted elsewhere. This node does not become the host any more.
  virtual boost::asio::awaitable<void> wait_until_over() = 0;

  /// What operators should have before them at the end of the run, a line each: which nodes were
  /// refused here and why.
  virtual std::vector<std::string> last_words() const { return {}; }

  /// Why the coordinator here has ended before that, and nobody can take its place; nothing: it has
  /// not.
  virtual std::exception_ptr failure() const { return nullptr; }
};

struct HostChoice {
  StoreEndpoint endpoint;  ///< as the operator wrote it, the same on all nodes
  /// Nothing: this node is the host if the endpoint is an address of this machine and nobody else
  /// on it is the host already.
  std::optional<bool> is_host;
  Settings settings;
  Admission admission;  ///< its secret outlives the host
};

/// A host for the whole run, at a known endpoint. Looks that up, for as long as nodes may take to
/// meet; names that are not known yet are looked up again. Throws Error if this node is to be the
/// host and cannot listen there, or if the endpoint's name stays unknown.
boost::asio::awaitable<std::unique_ptr<Host>> choose_host(boost::asio::any_io_executor executor,
                                                          HostChoice choice, Log log);

/// For the operator: where this node hosts the rendezvous, and where the workers' store.
std::string hosting_note(const StoreEndpoint& rendezvous, std::uint16_t store_port);

/// For a coordinator without a secret that listens at all addresses of this machine.
void warn_of_openness(const StoreEndpoint& endpoint, const Log& log);

/// The address to listen at, of those that a host's name has: that which the others know.
inline constexpr const char* kAllAddresses = "0.0.0.0";
std::string bind_address(const std::string& host, const std::vector<std::string>& addresses);

}  // namespace membership
}  // namespace ddprun
