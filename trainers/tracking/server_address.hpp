// Where a tracking server is, from its URI. Pure.
#pragma once

#include <string>

namespace trainer {

struct ServerAddress {
  std::string host;  ///< of an IPv6 address without brackets
  std::string port;
  std::string path;  ///< before the API's own, without a slash at its end; usually empty
  std::string uri;   ///< http://HOST:PORT/PATH, as messages name it

  bool operator==(const ServerAddress&) const = default;
};

/// Of "http://HOST[:PORT][/PATH]". Throws Error{Errc::usage} beginning with `origin` ("--mlflow")
/// for anything else: a file, a database, a server with TLS.
ServerAddress parse_server_address(const std::string& uri, const std::string& origin);

}  // namespace trainer
