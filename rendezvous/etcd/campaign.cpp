#include "rendezvous/etcd/campaign.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/etcd/request_deadline.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/host.hpp"
#include "rendezvous/membership/outsider.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::etcd {

namespace asio = boost::asio;
using membership::CoordinatorServer;
using membership::Settings;

namespace {

std::chrono::seconds lease_of_memory(const Settings& settings) {
  return std::max(membership::memory_of_run(settings), kLeaseMin);
}

/// Returns the name or address by which other nodes reach this one. If etcd's name is a loopback
/// address only here, etcd is on this machine, and other nodes reach this machine by that name.
std::string own_name(const EtcdSettings& etcd, const Client& client) {
  if (!etcd.local_addr.empty()) return etcd.local_addr;
  const auto& host = client.endpoint().host;
  const bool is_local_only = host == "localhost" || membership::is_loopback(host);
  if (membership::is_loopback(client.local_address()) && !is_local_only) return host;
  return client.local_address();
}

struct Listening {
  std::unique_ptr<CoordinatorServer> seat{};
  StoreEndpoint endpoint{};
  bool is_at_all_addresses = false;
  std::string problem{};
};

asio::awaitable<Listening> listen(std::shared_ptr<Client> client, EtcdSettings etcd,
                                  Candidate candidate, Log log) {
  Listening listening;
  listening.endpoint = {.host = own_name(etcd, *client), .port = etcd.port};
  const auto& host = listening.endpoint.host;
  auto looking_up = membership::addresses_of(host, request_deadline());
  const auto found = co_await std::move(looking_up);
  if (found.addresses.empty()) {
    const bool is_given = !etcd.local_addr.empty();
    listening.problem = (is_given ? "--local_addr=" + host + ": " : "") + found.problem;
    co_return listening;
  }
  const StoreEndpoint bound{membership::bind_address(host, found.addresses), etcd.port};
  listening.is_at_all_addresses = bound.host == membership::kAllAddresses;
  try {
    listening.seat = std::make_unique<CoordinatorServer>(
        client->executor(), bound, candidate.admission, candidate.settings.store_port, log);
    listening.endpoint.port = listening.seat->port();
  } catch (const Error& error) {
    listening.problem = error.what();
  }
  co_return listening;
}

/// Result of an election: what a successful candidate needs, or the problem.
asio::awaitable<Result<HeldLease>> hold_lease(std::shared_ptr<Client> client,
                                              std::chrono::seconds time) {
  const auto sent = Deadline::Clock::now();
  auto granting = client->grant(time, request_deadline());
  const auto granted = co_await std::move(granting);
  if (const auto* problem = std::get_if<Problem>(&granted)) co_return *problem;
  co_return HeldLease(std::get<Lease>(granted), sent);
}

struct Candidacy {
  std::string holder;  ///< value of the coordinator's key
  LeaseId lease = 0;   ///< lease of that key
  Revision ignored_outcome = 0;
  std::shared_ptr<RunTrust> trust;
};

/// The election: the first to write the key wins, unless the run has ended.
asio::awaitable<Result<EtcdSnapshot>> stand(std::shared_ptr<Client> client, RunKeys keys,
                                            Candidacy candidacy) {
  Transaction election{
      .conditions = {{.key = keys.coordinator()},
                     {.key = keys.outcome(), .modified = candidacy.ignored_outcome}},
      .puts = {{keys.coordinator(), std::move(candidacy.holder), candidacy.lease}},
      .read = keys.state()};
  auto committing = client->commit(std::move(election), request_deadline());
  const auto answer = co_await std::move(committing);
  if (const auto* problem = std::get_if<Problem>(&answer)) co_return *problem;
  co_return candidacy.trust->read(std::get<TransactionAnswer>(answer), candidacy.lease);
}

/// Starts the term of the elected node.
asio::awaitable<CampaignResult> begin_term(std::shared_ptr<Client> client, RunKeys keys,
                                           Candidate candidate, Listening listening,
                                           HeldLease leadership, Log log) {
  const auto seal = candidate.trust->seal_of_candidate();
  const auto holder = holder_text(candidate.node.name, listening.endpoint);
  auto standing = stand(client, keys,
                        {.holder = seal(keys.coordinator(), holder),
                         .lease = leadership.id(),
                         .ignored_outcome = candidate.ignored_outcome,
                         .trust = candidate.trust});
  const auto outcome = co_await std::move(standing);
  if (const auto* problem = std::get_if<Problem>(&outcome)) {
    co_return CampaignResult{.problem = problem->text};
  }
  const auto& snapshot = std::get<EtcdSnapshot>(outcome);
  if (!snapshot.holder && snapshot.is_holder_ignored) {
    co_return CampaignResult{.problem = kForeignHolder};
  }
  if (!snapshot.holder || snapshot.holder->lease != leadership.id()) co_return CampaignResult{};
  const auto record = co_await hold_lease(client, lease_of_memory(candidate.settings));
  if (const auto* problem = std::get_if<Problem>(&record)) {
    co_return CampaignResult{.problem = problem->text};
  }
  if (!leadership.is_held(Deadline::Clock::now())) {
    co_return CampaignResult{.problem = "etcd took longer to elect this node than its lease lasts"};
  }
  const TermFacts facts{.keys = keys,
                        .node = candidate.node,
                        .created = snapshot.holder->created,
                        .leadership = leadership,
                        .record = std::get<HeldLease>(record),
                        .seal = seal.continuing(snapshot.lineage),
                        .config = candidate.settings.config_outline};
  if (facts.seal.seal) candidate.settings.run_nonce = facts.seal.lineage.front();
  const auto store_port = listening.seat->store_port();
  CampaignResult result;
  result.term = std::make_shared<Term>(client, facts, std::move(listening.seat),
                                       std::move(candidate.on_renewal), log);
  const bool is_open = candidate.admission.secret == nullptr && listening.is_at_all_addresses;
  if (is_open) membership::warn_of_openness(listening.endpoint, log);
  result.term->begin(std::move(candidate.settings), snapshot.record);
  result.address = to_string(listening.endpoint);
  result.note = membership::hosting_note(listening.endpoint, store_port);
  co_return result;
}

}  // namespace

asio::awaitable<CampaignResult> campaign(std::shared_ptr<Client> client, EtcdSettings etcd,
                                         Candidate candidate, Log log) {
  auto listening = co_await listen(client, etcd, candidate, log);
  if (!listening.problem.empty()) co_return CampaignResult{.problem = listening.problem};
  const RunKeys keys(etcd.prefix, candidate.settings.run_id);
  const auto leadership = co_await hold_lease(client, etcd.lease);
  if (const auto* problem = std::get_if<Problem>(&leadership)) {
    co_return CampaignResult{.problem = problem->text};
  }
  const auto lease = std::get<HeldLease>(leadership);
  auto entering = begin_term(client, keys, std::move(candidate), std::move(listening), lease, log);
  auto result = co_await std::move(entering);
  if (!result.problem.empty()) {
    // Without an answer this node may have been elected, and then blocks other elections.
    auto revoking = client->revoke(lease.id(), revocation_deadline());
    co_await std::move(revoking);
  }
  co_return result;
}

}  // namespace ddprun::etcd
