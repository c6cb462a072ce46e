#include "worker_runtime/backends/backend_agreement.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_runtime/backends/forget_key.hpp"
#include <ddprun/error.hpp>

namespace ddprun {

namespace {

constexpr std::size_t kShownBytesMax = 64;

}  // namespace

BackendAgreement::BackendAgreement(Store& store, const Member& member, Deadline deadline)
    : endpoint_(store.endpoint()),
      key_("ddprun/group/" + member.group + "/backend"),
      is_rank_0_(member.rank == 0) {
  const std::string own = member.names.name(member.rank) + " with " + member.backend;
  std::string found;
  try {
    found = store.compare_set(key_, "", own, deadline);
  } catch (...) {
    forget_key(endpoint_, key_);  // the store may have received the request
    throw;
  }
  if (found.ends_with(" " + member.backend)) return;
  throw Error(Errc::usage, "process group \"" + member.group + "\": the ranks' backends differ (" +
                               own + ", " + printable(found.substr(0, kShownBytesMax)) +
                               "); request the same one on all ranks");
}

BackendAgreement::~BackendAgreement() {
  if (!has_ended_) forget_key(endpoint_, key_);
}

void BackendAgreement::end(Store& store, Deadline deadline) {
  if (is_rank_0_) store.erase(key_, deadline);
  has_ended_ = true;
}

}  // namespace ddprun
