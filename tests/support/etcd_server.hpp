// A real etcd on a free port of the loopback address, with its data in a temporary folder.
#pragma once

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ddprun::test {

class EtcdServer {
 public:
  /// False where etcd is not installed.
  static bool is_installed();

  /// Started, and healthy. Throws std::runtime_error if it does not come to that.
  EtcdServer();

  std::string endpoint() const;
  int port() const { return port_; }

  /// At once, as when its machine is lost. The data stay.
  void kill();
  void start();
  void signal(int number) const { process_->signal(number); }

  /// The keys that begin like this, with their values, as lines of "key value".
  std::vector<std::string> keys(const std::string& prefix) const;

 private:
  TemporaryFolder folder_;
  int port_;
  int peer_port_;
  std::unique_ptr<Program> process_;
};

}  // namespace ddprun::test
