// The holder's view of a lease in etcd. It ends earlier here than in etcd. Pure.
//
// etcd counts from the receipt of the request. The holder counts from the sending, and ends a sixth
// earlier, so that it can stop what the lease protects.
#pragma once

#include "rendezvous/etcd/messages.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::etcd {

class HeldLease {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HeldLease(const Lease& lease, Time sent) : id_(lease.id) { renew(sent, lease.time); }

  /// Records that the request sent at `sent` was answered with `time`.
  void renew(Time sent, std::chrono::seconds time) {
    const std::chrono::milliseconds whole(time);
    end_ = std::max(end_, sent + whole - whole / kParts);
    next_renewal_ = sent + whole / kParts;
  }

  LeaseId id() const { return id_; }
  Time end() const { return end_; }
  Time next_renewal() const { return next_renewal_; }
  bool is_held(Time now) const { return now < end_; }

 private:
  /// Number of parts of a lease. It is renewed once per part, and ends one part early.
  static constexpr int kParts = 6;

  LeaseId id_ = 0;
  Time end_{};
  Time next_renewal_{};
};

}  // namespace ddprun::etcd
