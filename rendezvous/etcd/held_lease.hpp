// A lease in etcd as its holder must see it: surely not ended there while it is held here. Pure.
//
// etcd counts the time from when it took the request, which is later than when that was sent. The
// holder counts from the sending, and ends a sixth earlier: time to stop what the lease allows.
#pragma once

#include "rendezvous/etcd/messages.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::etcd {

class HeldLease {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HeldLease(const Lease& lease, Time sent) : id_(lease.id) { renew(sent, lease.time); }

  /// A request that was sent then has been answered with this time.
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
  /// Of a lease: renewed once in each, and ended early by one.
  static constexpr int kParts = 6;

  LeaseId id_ = 0;
  Time end_{};
  Time next_renewal_{};
};

}  // namespace ddprun::etcd
