// A node's attempt to be elected: it listens first, so that whoever reads of its election can
// connect at once. Runs on the executor's one thread.
#pragma once

#include "rendezvous/etcd/run_trust.hpp"
#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/etcd/term.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>

namespace ddprun::etcd {

struct CampaignResult {
  std::shared_ptr<Term> term{};  ///< if this node has been elected; it has begun
  std::string note{};            ///< for the operator, then
  std::string address{};         ///< of the coordinator, then
  std::string problem{};         ///< why nobody could be elected
};

struct Candidate {
  membership::PastNode node;
  membership::Settings settings;
  membership::Admission admission;  ///< its secret outlives the term
  std::shared_ptr<RunTrust> trust{};
  Revision ignored_outcome = 0;  ///< as seen before; no other one must be there
  TermNotice on_renewal{};
};

/// etcd has answered the client before.
boost::asio::awaitable<CampaignResult> campaign(std::shared_ptr<Client> client, EtcdSettings etcd,
                                                Candidate candidate, Log log);

}  // namespace ddprun::etcd
