#include "trainers/tracking/server_address.hpp"

#include <ddprun/error.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace trainer {

namespace {

constexpr std::string_view kScheme = "http://";
constexpr const char* kUsualPort = "80";

bool is_port(const std::string& text) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && number > 0 &&
         number <= 65535;
}

/// Parses "HOST", "HOST:PORT" or "[ADDRESS]:PORT". Returns false for any other text.
bool read_authority(const std::string& authority, ServerAddress& address) {
  const bool has_brackets = authority.starts_with('[');
  const std::size_t host_end =
      has_brackets ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (host_end == std::string::npos) return false;
  address.host = authority.substr(has_brackets ? 1 : 0, host_end - (has_brackets ? 1 : 0));
  const std::string rest = authority.substr(host_end + (has_brackets ? 1 : 0));
  address.port = rest.empty() ? kUsualPort : rest.substr(1);
  return !address.host.empty() && (rest.empty() || rest[0] == ':') && is_port(address.port);
}

}  // namespace

ServerAddress parse_server_address(const std::string& uri, const std::string& origin) {
  const auto refuse = [&](const std::string& why) {
    throw ddprun::Error(ddprun::Errc::usage, origin + ": " + why);
  };
  if (uri.starts_with("https://")) {
    refuse("'" + uri + "' needs TLS, which is not supported; give the http:// address of a proxy " +
           "or of an ssh tunnel on this machine");
  }
  if (!uri.starts_with(kScheme)) {
    refuse("'" + uri + "' is not the address of a tracking server; give http://HOST:PORT, where " +
           "'mlflow server' runs");
  }
  const std::string rest = uri.substr(kScheme.size());
  const std::size_t authority_end = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, authority_end);
  if (authority.find('@') != std::string::npos) {
    refuse("a user does not belong in the address; set MLFLOW_TRACKING_USERNAME and " +
           std::string("MLFLOW_TRACKING_PASSWORD"));
  }
  ServerAddress address;
  address.path = rest.substr(authority_end);
  while (address.path.ends_with('/')) address.path.pop_back();
  const bool is_plain = std::all_of(rest.begin(), rest.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '?' && c != '#';
  });
  if (!is_plain || !read_authority(authority, address)) {
    refuse("'" + uri + "' is malformed; give http://HOST:PORT, or http://HOST:PORT/PATH");
  }
  address.uri = std::string(kScheme) + authority + address.path;
  return address;
}

}  // namespace trainer
