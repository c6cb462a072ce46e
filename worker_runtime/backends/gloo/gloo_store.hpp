// Adapter of the store to Gloo's interface, for connecting its ranks.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <gloo/rendezvous/store.h>

#include <chrono>
#include <string>
#include <vector>

namespace ddprun {

/// Returns the remaining time in Gloo's unit: whole milliseconds, at least one.
std::chrono::milliseconds gloo_timeout(Deadline deadline);

class GlooStore : public gloo::rendezvous::Store {
 public:
  /// Prepends "`prefix`/" to all keys. `deadline` applies to all calls.
  GlooStore(ddprun::Store& store, std::string prefix, Deadline deadline);

  /// Returns the address of this machine in its connection to the store.
  std::string own_address() const;

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

  void erase_own_keys();

 private:
  std::string whole(const std::string& key) const { return prefix_ + "/" + key; }

  ddprun::Store& store_;
  const std::string prefix_;
  const Deadline deadline_;
  std::vector<std::string> own_keys_;
};

}  // namespace ddprun
