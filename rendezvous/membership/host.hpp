// Where the coordinator and the store of a run are: beside this agent or beside another. Runs on
// the executor's one thread.
#pragma once

#include "rendezvous/membership/settings.hpp"
#include "rendezvous/security/secret.hpp"
#include <ddprun/log.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::membership {

struct HostChoice {
  StoreEndpoint endpoint;  ///< as the operator wrote it, the same on all nodes
  /// Nothing: this node is the host if the endpoint is an address of this machine and nobody else
  /// on it is the host already.
  std::optional<bool> is_host;
  Settings settings;
  const security::Secret* secret = nullptr;  ///< null: the run is open; else it outlives the host
};

class Host {
 public:
  Host();  ///< none; to be assigned to
  Host(Host&&) noexcept;
  Host& operator=(Host&&) noexcept;
  ~Host();  ///< closes what is open

  /// True if coordinator and store are part of this process.
  bool is_here() const;

  /// Where this node's agent reaches the coordinator.
  const StoreEndpoint& endpoint() const;

  /// What operators should know of the choice; may be empty.
  const std::string& note() const;

  /// Returns when all nodes have heard how the run ended; at once if it is hosted elsewhere.
  boost::asio::awaitable<void> wait_until_over();

  /// Why the coordinator here has ended before that; nothing: it has not.
  std::exception_ptr failure() const;

 private:
  friend boost::asio::awaitable<Host> choose_host(boost::asio::any_io_executor, HostChoice, Log);
  struct Parts;
  explicit Host(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Looks the endpoint up, for as long as nodes may take to meet; names that are not known yet are
/// looked up again. Throws Error if this node is to be the host and cannot listen there, or if
/// the endpoint's name stays unknown.
boost::asio::awaitable<Host> choose_host(boost::asio::any_io_executor executor, HostChoice choice,
                                         Log log);

}  // namespace ddprun::membership
