// Runs parts of a test as another user without an account; needs root.
#pragma once

#include <stdexcept>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace ddprun::test {

/// A user id without an account.
inline constexpr uid_t kOtherUser = 54'321;

/// Changes the effective user of this thread to `user` for sockets and files until destruction.
class AsUser {
 public:
  explicit AsUser(uid_t user) : before_(static_cast<uid_t>(::setfsuid(user))) {}
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser() { ::setfsuid(before_); }

 private:
  uid_t before_;
};

/// Changes this process into one that `user` could have started. Throws std::runtime_error if that
/// is not permitted.
inline void become_user(uid_t user) {
  if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
    throw std::runtime_error("this process cannot become another user's");
}

/// Returns false if the kernel does not permit this process to change its user.
inline bool can_be_other_user() {
  const AsUser other(kOtherUser);
  return static_cast<uid_t>(::setfsuid(kOtherUser)) == kOtherUser;
}

}  // namespace ddprun::test
