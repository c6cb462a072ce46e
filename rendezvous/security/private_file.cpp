#include "rendezvous/security/private_file.hpp"

#include <ddprun/error.hpp>

#include <cerrno>
#include <cstdio>
#include <unistd.h>

namespace ddprun::security {

namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

[[noreturn]] void refuse_file(const std::string& origin, const std::string& why) {
  throw Error(Errc::usage, origin + ": " + why);
}

std::string octal(mode_t mode) {
  char text[8] = {};
  std::snprintf(text, sizeof text, "%04o", mode & 07777U);
  return text;
}

/// As Kubernetes mounts secrets into pods with an fsGroup that do not run as root: the
/// file belongs to root, and a group of this process may only read it.
bool is_lent_by_root(const struct stat& status) {
  return ::geteuid() != 0 && status.st_uid == 0 && (status.st_mode & kOthers) == S_IRGRP &&
         (status.st_gid == ::getegid() || ::group_member(status.st_gid) != 0);
}

}  // namespace

void check_private(const struct stat& status, const std::string& path, const std::string& origin) {
  if (!S_ISREG(status.st_mode)) refuse_file(origin, "is not a regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse_file(origin, "belongs to user " + std::to_string(status.st_uid) +
                            ", which could replace it; give a file of this user or of root");
  }
  if ((status.st_mode & kOthers) != 0 && !is_lent_by_root(status)) {
    refuse_file(origin, "is open to others than its owner (mode " + octal(status.st_mode) +
                            "); chmod 600 " + path);
  }
}

void require_private_file(const std::string& path, const std::string& origin) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0) {
    throw_system_error(origin, errno);
  }
  check_private(status, path, origin);
}

}  // namespace ddprun::security
