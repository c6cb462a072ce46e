// A node's attempt to be elected. It listens before the election, so that agents can connect as
// soon as the election is visible. Runs on the executor's single thread.
#pragma once

#include "rendezvous/etcd/run_trust.hpp"
#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/etcd/term.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>

namespace ddprun::etcd {

struct CampaignResult {
  std::shared_ptr<Term> term{};  ///< started term if this node was elected
  std::string note{};            ///< note for the operator if elected
  std::string address{};         ///< address of the coordinator if elected
  std::string problem{};         ///< why the election failed
};

struct Candidate {
  membership::PastNode node;
  membership::Settings settings;
  membership::Admission admission;  ///< its secret must outlive the term
  std::shared_ptr<RunTrust> trust{};
  /// revision of the ignored outcome; the election fails if there is another
  Revision ignored_outcome = 0;
  RenewalCallback on_renewal{};
};

/// Runs for election. REQUIRES: etcd has answered the client before.
boost::asio::awaitable<CampaignResult> campaign(std::shared_ptr<Client> client, EtcdSettings etcd,
                                                Candidate candidate, Log log);

}  // namespace ddprun::etcd
