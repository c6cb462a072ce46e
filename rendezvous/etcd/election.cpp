#include "rendezvous/etcd/election.hpp"

#include "rendezvous/membership/join_checks.hpp"
#include "rendezvous/membership/outsider.hpp"

namespace ddprun::etcd {

namespace {

/// Connections within a machine take much less, even under load.
constexpr std::chrono::seconds kReachableWithin(5);
constexpr int kFailuresMin = 3;

}  // namespace

bool is_unreachable(const OwnBeginning& beginning, std::chrono::steady_clock::time_point now) {
  const bool is_late = now - beginning.elected >= kReachableWithin;
  return is_late && !beginning.has_nodes && beginning.failures >= kFailuresMin;
}

Move decide_move(const EtcdSnapshot& snapshot, const membership::Join& self, Revision tried,
                 bool may_try_again) {
  if (snapshot.outcome) return AcceptOutcome{*snapshot.outcome};
  if (snapshot.holder) {
    if (snapshot.holder->created == tried && !may_try_again)
      return AwaitChange{snapshot.revision + 1};
    return GoTo{snapshot.holder->endpoint, snapshot.holder->created};
  }
  if (snapshot.is_holder_ignored) return AwaitRemoval{snapshot.revision + 1};
  // A node that the run would refuse must not become its coordinator.
  if (snapshot.record) {
    const auto settings = membership::settings_of(*snapshot.record, self.run_id);
    if (const auto reason = membership::objection_to(self, settings)) {
      const bool has_both = !self.config_hash.empty() && !settings.config_hash.empty();
      return AcceptOutcome{
          .outcome = membership::refusal_of(*reason),
          .has_other_config = has_both && self.config_hash != settings.config_hash};
    }
  }
  return Campaign{};
}

}  // namespace ddprun::etcd
