// A real etcd on free ports of the loopback address, with its data in a temporary folder: alone, or
// several as a cluster.
#pragma once

#include "tests/support/free_port.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

/// The command of a member at these addresses ("10.0.0.1:2379"). `cluster` are all members, as
/// "NAME=URL,..." with the addresses for each other.
std::vector<std::string> etcd_command(const std::string& name, const std::string& client,
                                      const std::string& peer, const std::string& cluster,
                                      const std::string& data_folder);

/// Paths of PEM files with which a server uses TLS, and requires certificates of its clients.
struct EtcdTls {
  std::string certificate;
  std::string key;
  std::string authority;  ///< which signs certificates of clients
};

class EtcdServer {
 public:
  /// False where etcd is not installed.
  static bool is_installed();

  /// Alone, started, and healthy. Throws std::runtime_error if it does not come to that.
  EtcdServer();

  /// The same, with TLS at its endpoint. This class itself uses another port, without TLS.
  explicit EtcdServer(const EtcdTls& tls);

  /// To become a member of a cluster.
  explicit EtcdServer(std::string name);

  /// How it stands in the list of a cluster's members.
  std::string entry() const { return name_ + "=http://" + peer(); }

  std::string endpoint() const { return "127.0.0.1:" + port_.text(); }
  int port() const { return port_.number(); }
  std::string port_text() const { return port_.text(); }

  /// At once, as when its machine is lost. The data stay.
  void kill();

  /// Again, as the only member, until it is healthy.
  void start();

  /// Again, as a member of `cluster`, which is not healthy before most of them are there.
  void join(const std::string& cluster);
  void await_health() const;

  void signal(int number) const { process_->signal(number); }

  /// Whether the cluster goes by its word at present.
  bool is_leader() const;

  /// The keys that begin like this, with their values, as lines of "key value".
  std::vector<std::string> keys(const std::string& prefix) const;

  /// The value of one key; empty if there is none.
  std::string value(const std::string& key) const;

  void remove(const std::string& key) const;

  /// Overwrites a key, which then has no lease.
  void put(const std::string& key, const std::string& value) const;

 private:
  /// For the requests of this class.
  int own_port() const { return tls_ ? plain_port_.number() : port_.number(); }
  std::vector<std::string> command(const std::string& cluster) const;
  std::string peer() const { return "127.0.0.1:" + peer_port_.text(); }

  TemporaryFolder folder_;
  FreePort port_;
  FreePort peer_port_;
  FreePort plain_port_;
  std::optional<EtcdTls> tls_;
  std::string name_;
  std::unique_ptr<Program> process_;
};

/// Three members, of which any two can decide.
class EtcdCluster {
 public:
  /// Started, and healthy.
  EtcdCluster();

  /// For --rdzv_endpoint, in the members' order.
  std::string endpoints() const;

  EtcdServer& operator[](int member) { return *members_[static_cast<std::size_t>(member)]; }

  /// The one that leads; waits for one.
  int leader() const;

  void start(int member) { (*this)[member].join(entries_); }

 private:
  std::string entries_;
  std::vector<std::unique_ptr<EtcdServer>> members_;
};

}  // namespace ddprun::test
