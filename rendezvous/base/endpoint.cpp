#include "rendezvous/base/endpoint.hpp"

namespace ddprun {

std::string to_string(const StoreEndpoint& endpoint) {
  const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + endpoint.host + "]" : endpoint.host;
  return host + ":" + std::to_string(endpoint.port);
}

}  // namespace ddprun
