// A network of simulated machines: a network namespace for each, and one for a bridge. Needs root,
// and is not permitted in every container.
#pragma once

#include "tests/support/program.hpp"

#include <string>
#include <unistd.h>
#include <vector>

namespace ddprun::test {

class Network {
 public:
  explicit Network(int machines) : name_("ddprun" + std::to_string(::getpid())) {
    is_there_ = ip({"netns", "add", bridge()}) &&
                ip({"-n", bridge(), "link", "add", "br0", "type", "bridge"}) &&
                ip({"-n", bridge(), "link", "set", "br0", "up"});
    for (int i = 1; i <= machines && is_there_; ++i) is_there_ = add(i);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() {
    for (int i = 1; i <= added_; ++i) ip({"netns", "delete", machine(i)});
    ip({"netns", "delete", bridge()});
  }

  /// Returns false if this is not permitted here.
  bool is_there() const { return is_there_; }

  std::string address(int number) const { return "10.77.0." + std::to_string(number); }

  /// Returns the command that runs on the machine of this number (from 1).
  std::vector<std::string> on(int number, const std::vector<std::string>& command) const {
    std::vector<std::string> arguments = {"ip", "netns", "exec", machine(number)};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return arguments;
  }

  /// Drops all packets of the machine, without errors for any sender.
  void cut(int number) const { ip({"-n", bridge(), "link", "set", port(number), "down"}); }
  void mend(int number) const { ip({"-n", bridge(), "link", "set", port(number), "up"}); }

  /// Limits what the machine sends ("20mbit"). Returns false if that is not possible here.
  bool shape(int number, const std::string& rate) const {
    return tc(number, {"add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "128kb",
                       "latency", "50ms"});
  }
  void unshape(int number) const { tc(number, {"del", "dev", "eth0", "root"}); }

  /// Drops packets to the machine but not from it. Returns false if that is not possible here
  /// (package nftables).
  bool deafen(int number) const {
    return nft(number,
               "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; "
               "policy drop; }; add rule inet deaf in iif lo accept");
  }
  void cure(int number) const { nft(number, "delete table inet deaf"); }

  /// Drops packets between the machine and these others; the rest of the network is not affected.
  /// Returns false if that is not possible here.
  bool part(int number, const std::vector<int>& others) const {
    bool is_done = true;
    for (const int other : others) {
      is_done = is_done && ignore(number, other) && ignore(other, number);
    }
    return is_done;
  }
  void reunite(int number, const std::vector<int>& others) const {
    nft(number, "delete table inet apart");
    for (const int other : others) nft(other, "delete table inet apart");
  }

 private:
  std::string bridge() const { return name_ + "-bridge"; }
  std::string machine(int number) const { return name_ + "-" + std::to_string(number); }
  static std::string port(int number) { return "port" + std::to_string(number); }

  bool ignore(int number, int other) const {
    return nft(number,
               "add table inet apart; add chain inet apart in { type filter hook input priority 0; "
               "}; add rule inet apart in ip saddr " +
                   address(other) + " drop");
  }

  bool nft(int number, const std::string& rules) const {
    Program program(on(number, {"nft", rules}));
    return program.wait() == 0;
  }

  bool tc(int number, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {"tc", "qdisc"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Program program(on(number, command));
    return program.wait() == 0;
  }

  static bool ip(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ip");
    Program program(arguments);
    return program.wait() == 0;
  }

  bool add(int number) {
    if (!ip({"netns", "add", machine(number)})) return false;
    ++added_;
    const auto ns = machine(number);
    return ip({"-n", ns, "link", "set", "lo", "up"}) &&
           ip({"-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", port(number),
               "netns", bridge()}) &&
           ip({"-n", ns, "addr", "add", address(number) + "/24", "dev", "eth0"}) &&
           ip({"-n", ns, "link", "set", "eth0", "up"}) &&
           ip({"-n", bridge(), "link", "set", port(number), "master", "br0", "up"});
  }

  std::string name_;
  bool is_there_ = false;
  int added_ = 0;
};

}  // namespace ddprun::test
