#include "launcher/config/load_config.hpp"

#include "launcher/config/resolve_config.hpp"
#include "launcher/config/scheduler.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

UsageProblem unreadable(const std::string& path, const std::string& reason) {
  return UsageProblem{{path + ": " + reason}};
}

std::vector<std::string> host_names() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return {std::string(name.data())};
}

/// Returns the host name with its domain, if /etc/hosts has one, as in pods of a Kubernetes
/// service. No name server is queried, as that may block.
std::string full_host_name() {
  const auto names = host_names();
  const auto own = names.empty() ? "" : names.front();
  if (own.empty() || own.find('.') != std::string::npos) return own;
  std::ifstream hosts("/etc/hosts");
  for (std::string line; std::getline(hosts, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (word.rfind(own + ".", 0) == 0) return word;
    }
  }
  return own;
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (bytes == nullptr) return {};
  const auto* written = ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return written == nullptr ? "" : written;
}

/// Returns the addresses of all interfaces except loopback.
std::vector<std::string> interface_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    auto text = address_text(entry->ifa_addr);
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  ::freeifaddrs(list);
  return addresses;
}

std::variant<ConfigValues, UsageProblem> load(const ConfigRequest& request,
                                              const EnvironmentLookup& environment,
                                              const std::string& text) {
  auto file = read_config(request.file, text);
  if (auto* problem = std::get_if<UsageProblem>(&file)) return std::move(*problem);
  auto clues = gather_node_clues(environment);
  clues.node_name = value_of(request.given, "node_name");
  clues.node_rank = value_of(request.given, "node_rank");
  auto node = find_node(std::get<ConfigFile>(file), clues);
  if (auto* problem = std::get_if<UsageProblem>(&node)) return std::move(*problem);
  return resolve_config(std::get<ConfigFile>(file), std::get<FoundNode>(node), request.given,
                        environment);
}

}  // namespace

std::variant<std::string, UsageProblem> read_config_text(const std::string& path) {
  // Does not block on a FIFO.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return unreadable(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return unreadable(path, "is not a regular file");
  }
  std::string text;
  // One more byte than the limit detects a file that is too long.
  while (text.size() <= kJsonBytesMax) {
    std::array<char, 65536> block;
    const auto bytes = ::read(file.get(), block.data(), block.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return unreadable(path, std::strerror(errno));
    if (bytes == 0) break;
    text.append(block.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

NodeClues gather_node_clues(const EnvironmentLookup& environment) {
  NodeClues clues;
  clues.host_names = host_names();
  clues.addresses = interface_addresses();
  clues.environment = environment;
  return clues;
}

SchedulerReader scheduler_reader(const EnvironmentLookup& environment) {
  return [environment](const GivenValues& given) {
    return values_from_scheduler(
        {.environment = environment, .given = given, .host_name = full_host_name()});
  };
}

ConfigLoader config_loader(const EnvironmentLookup& environment) {
  return [environment](const ConfigRequest& request) -> std::variant<ConfigValues, UsageProblem> {
    const auto text = read_config_text(request.file);
    if (const auto* problem = std::get_if<UsageProblem>(&text)) return *problem;
    return load(request, environment, std::get<std::string>(text));
  };
}

ConfigLoader config_loader(const EnvironmentLookup& environment, const std::string& text) {
  return [environment, text](const ConfigRequest& request) {
    return load(request, environment, text);
  };
}

}  // namespace ddprun
