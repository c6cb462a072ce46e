// The holder's view of a lease in etcd, which ends here before it ends there. Pure.
//
// etcd counts from the receipt of the request; the holder counts from the sending, and ends a sixth
// earlier, to stop what the lease protects.
#pragma once

#include "rendezvous/etcd/messages.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::etcd {

class HeldLease {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HeldLease(const Lease& lease, Time sent) : id_(lease.id) { renew(sent, lease.time); }

  /// The request sent at `sent` was answered with `time`.
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
  /// Parts of a lease: it is renewed once per part, and ends one part early.
  static constexpr int kParts = 6;

  LeaseId id_ = 0;
  Time end_{};
  Time next_renewal_{};
};

}  // namespace ddprun::etcd
