// Files with secrets and keys, which other users must not access. Thread-safe.
#pragma once

#include <string>
#include <sys/stat.h>

namespace ddprun::security {

/// Throws Error{Errc::usage}, with `origin` before the problem, unless this is the status of a
/// regular file of this user or of root to which no other user has access. If this process is not
/// root's, one of its groups may read a file of root.
void check_private(const struct stat& status, const std::string& path, const std::string& origin);

/// Checks the file at `path`. Throws Error{Errc::system} if it does not exist or cannot be read.
void require_private_file(const std::string& path, const std::string& origin);

}  // namespace ddprun::security
