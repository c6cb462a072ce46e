// Several agents on this machine, each at its own loopback address, as nodes of one run.
#pragma once

#include "tests/support/free_port.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::test {

/// Returns a different secret for each digit.
inline std::string secret_of(char digit) {
  std::string secret;
  for (const char other : std::string("0123456789abcdef0123456789abcdef")) {
    secret += digit;
    secret += other;
  }
  return secret;
}

/// Writes a new file with a secret to this path.
inline std::string make_secret(const std::string& path, char digit = '7') {
  write_file(path, secret_of(digit) + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

/// All agents use the same secret.
class Cluster {
 public:
  /// `options`: options of every agent, except those about nodes; `conf`: settings of --rdzv_conf.
  Cluster(std::string nnodes, std::string script, std::vector<std::string> options = {},
          std::string conf = "last_call_timeout=0.2,lease_timeout=5")
      : nnodes_(std::move(nnodes)),
        script_(std::move(script)),
        options_(std::move(options)),
        conf_(std::move(conf)),
        secret_file_(make_secret(folder_ / "secret")) {}

  /// Starts the agent at 127.0.0.`number`; number 2 hosts the rendezvous. `more`: options of this
  /// agent.
  Program& start(int number, const std::vector<std::string>& more = {},
                 const std::map<std::string, std::string>& environment = {},
                 const std::string& program = in_bin("ddprun")) {
    const auto address = "127.0.0." + std::to_string(number);
    std::vector<std::string> options = {
        "--nnodes=" + nnodes_,
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=127.0.0.2:" + port_.text(),
        "--rdzv_id=cluster",
        "--local_addr=" + address,
        "--secret_file=" + secret_file_,
        "--rdzv_conf=" + conf_ + ",is_host=" + (number == 2 ? "1" : "0")};
    options.insert(options.end(), options_.begin(), options_.end());
    options.insert(options.end(), more.begin(), more.end());
    nodes_.push_back(std::make_unique<Program>(launch(options, script_, program), environment));
    return *nodes_.back();
  }

  int port() const { return port_.number(); }

 private:
  std::string nnodes_;
  std::string script_;
  std::vector<std::string> options_;
  std::string conf_;
  FreePort port_;
  TemporaryFolder folder_;
  std::string secret_file_;
  std::vector<std::unique_ptr<Program>> nodes_;
};

}  // namespace ddprun::test
