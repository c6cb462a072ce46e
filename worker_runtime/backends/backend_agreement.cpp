#include "worker_runtime/backends/backend_agreement.hpp"

#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <chrono>
#include <exception>

namespace ddprun {

namespace {

// Enough for a responsive store.
constexpr auto kForgetTimeout = std::chrono::seconds(1);

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
    erase_key();  // the store may have received the request
    throw;
  }
  if (found.ends_with(" " + member.backend)) return;
  throw Error(Errc::usage, "process group \"" + member.group + "\": the ranks' backends differ (" +
                               own + ", " + printable(found.substr(0, kShownBytesMax)) +
                               "); request the same one on all ranks");
}

BackendAgreement::~BackendAgreement() {
  if (!has_ended_) erase_key();
}

void BackendAgreement::erase_key() noexcept {
  try {
    // The other connection is closed if a request of it has timed out.
    const Deadline deadline = Deadline::after(kForgetTimeout);
    Store::connect(endpoint_, deadline).erase(key_, deadline);
  } catch (const std::exception&) {
    // The key stays if the store does not respond.
  }
}

void BackendAgreement::end(Store& store, Deadline deadline) {
  if (is_rank_0_) store.erase(key_, deadline);
  has_ended_ = true;
}

}  // namespace ddprun
