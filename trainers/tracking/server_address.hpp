// Parses the URI of a tracking server. Pure.
#pragma once

#include <string>

namespace trainer {

struct ServerAddress {
  std::string host;  ///< name or address; IPv6 without brackets
  std::string port;
  std::string path;  ///< prefix of the API's paths, without a trailing slash; usually empty
  std::string uri;   ///< http://HOST:PORT/PATH, as messages name it

  bool operator==(const ServerAddress&) const = default;
};

/// Parses "http://HOST[:PORT][/PATH]". Throws Error{Errc::usage} that begins with `origin`
/// ("--mlflow") for any other text, such as a file, a database or a server with TLS.
ServerAddress parse_server_address(const std::string& uri, const std::string& origin);

}  // namespace trainer
