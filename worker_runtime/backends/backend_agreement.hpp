// Checks through a key in the store that all ranks create a group with the same backend.
#pragma once

#include "worker_runtime/backends/rank_names.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <string>

namespace ddprun {

/// Exists while a rank creates a group. Blocking.
class BackendAgreement {
 public:
  /// A rank of a group, and the name of its backend.
  struct Member {
    std::string group;
    std::string backend;
    int rank = 0;
    RankNames names{};
  };

  /// Sets the key to this rank's backend unless another rank has set it. Throws Error{Errc::usage}
  /// if that rank uses a different backend.
  BackendAgreement(Store& store, const Member& member, Deadline deadline);
  BackendAgreement(const BackendAgreement&) = delete;
  BackendAgreement& operator=(const BackendAgreement&) = delete;
  /// Erases the key unless end() was called, so that the group can be created again with another
  /// backend.
  ~BackendAgreement();

  /// Must be called on rank 0 when all ranks have created the group, and on other ranks at any
  /// time. Rank 0 erases the key.
  void end(Store& store, Deadline deadline);

 private:
  StoreEndpoint endpoint_;
  std::string key_;
  bool is_rank_0_;
  bool has_ended_ = false;
};

}  // namespace ddprun
