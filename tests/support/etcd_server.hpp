// A real etcd on free ports of the loopback address, with its data in a temporary folder: a single
// member or a cluster.
#pragma once

#include "tests/support/free_port.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

/// Returns the command of a member at these addresses ("10.0.0.1:2379"). `cluster` lists all
/// members as "NAME=URL,..." with their peer addresses.
std::vector<std::string> etcd_command(const std::string& name, const std::string& client,
                                      const std::string& peer, const std::string& cluster,
                                      const std::string& data_folder);

/// Paths of PEM files with which a server uses TLS and requires client certificates.
struct EtcdTls {
  std::string certificate;
  std::string key;
  std::string authority;  ///< signs client certificates
};

class EtcdServer {
 public:
  /// Returns false if etcd is not installed.
  static bool is_installed();

  /// Starts a single member and waits until it is healthy. Throws std::runtime_error on failure.
  EtcdServer();

  /// The same, with TLS at its endpoint. This class itself uses another port without TLS.
  explicit EtcdServer(const EtcdTls& tls);

  /// Prepares a member of a cluster.
  explicit EtcdServer(std::string name);

  /// Its entry in the member list of a cluster.
  std::string entry() const { return name_ + "=http://" + peer(); }

  std::string endpoint() const { return "127.0.0.1:" + port_.text(); }
  int port() const { return port_.number(); }
  std::string port_text() const { return port_.text(); }

  /// Kills the server, as a loss of its machine would. Its data remain.
  void kill();

  /// Starts it again as a single member and waits until it is healthy.
  void start();

  /// Starts it again as a member of `cluster`, which is not healthy before a majority is started.
  void join(const std::string& cluster);
  void await_health() const;

  void signal(int number) const { process_->signal(number); }

  /// Returns whether it is the leader at present.
  bool is_leader() const;

  /// Returns the keys with this prefix and their values, as lines of "key value".
  std::vector<std::string> keys(const std::string& prefix) const;

  /// Returns the value of a key; empty if absent.
  std::string value(const std::string& key) const;

  void remove(const std::string& key) const;

  /// Overwrites a key, and removes its lease.
  void put(const std::string& key, const std::string& value) const;

 private:
  /// Endpoint for the requests of this class.
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

/// Three members, of which any two are a majority.
class EtcdCluster {
 public:
  /// Starts the members and waits until they are healthy.
  EtcdCluster();

  /// Value for --rdzv_endpoint, in the order of the members.
  std::string endpoints() const;

  EtcdServer& operator[](int member) { return *members_[static_cast<std::size_t>(member)]; }

  /// Returns the leader; waits until there is one.
  int leader() const;

  void start(int member) { (*this)[member].join(entries_); }

 private:
  std::string entries_;
  std::vector<std::unique_ptr<EtcdServer>> members_;
};

}  // namespace ddprun::test
