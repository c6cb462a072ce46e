// Another user without an account, for tests that run as root.
#pragma once

#include <stdexcept>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace ddprun::test {

/// No account has this number.
inline constexpr uid_t kOtherUser = 54'321;

/// Sockets and files that this thread makes meanwhile are those of `user`.
class AsUser {
 public:
  explicit AsUser(uid_t user) : before_(static_cast<uid_t>(::setfsuid(user))) {}
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser() { ::setfsuid(before_); }

 private:
  uid_t before_;
};

/// Makes this process one that `user` might have started. Throws std::runtime_error if it may not.
inline void become_user(uid_t user) {
  if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
    throw std::runtime_error("this process cannot become another user's");
}

/// False: the kernel does not let this process act as other users.
inline bool can_be_other_user() {
  const AsUser other(kOtherUser);
  return static_cast<uid_t>(::setfsuid(kOtherUser)) == kOtherUser;
}

}  // namespace ddprun::test
