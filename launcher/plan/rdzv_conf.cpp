#include "launcher/plan/rdzv_conf.hpp"

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <initializer_list>
#include <variant>

namespace ddprun {

namespace {

using std::chrono::milliseconds;

constexpr int kNodeRankMax = 1'000'000;
constexpr int kPortMax = 65'535;
constexpr int kKeepAlivesMax = 1000;

/// Shorter intervals are too fast for readers.
constexpr milliseconds kNoticeMin(200);

/// A shorter timeout ends before nodes on the same machine have joined.
constexpr milliseconds kJoinTimeoutMin(100);

/// Maximum delay of a round if two nodes cannot reach each other.
constexpr milliseconds kProbeTimeoutMax(60'000);

/// A shorter lease expires whenever a machine is briefly busy.
constexpr milliseconds kLeaseMin(200);

/// Accepts the same words as torchrun.
Parsed<bool> parse_truth(const std::string& text) {
  const auto word = to_lower(text);
  for (const char* yes : {"1", "true", "t", "yes", "y"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"0", "false", "f", "no", "n"}) {
    if (word == no) return false;
  }
  return ValueProblem{"must be 1, true, t, yes, y, 0, false, f, no or n"};
}

class Reader {
 public:
  Reader(const std::map<std::string, std::string>& values, std::vector<std::string>& problems)
      : values_(values), problems_(problems) {}

  RdzvConf read() {
    auto& times = conf_.settings;
    // torchrun's two backends use different names for the same value.
    seconds("timeout", times.join_timeout, kJoinTimeoutMin);
    seconds("join_timeout", times.join_timeout, kJoinTimeoutMin);
    seconds("last_call_timeout", times.last_call_timeout);
    seconds("exit_barrier_timeout", times.exit_barrier_timeout);
    seconds("rejoin_timeout", times.rejoin_timeout);
    seconds("restart_window", times.restarts.window);
    read_lease(times.lease);
    seconds("waiting_notice", times.waiting_notice, kNoticeMin);
    seconds("probe_timeout", times.probe_timeout, milliseconds(0), kProbeTimeoutMax);
    for (const char* key : {"close_timeout", "heartbeat_timeout", "read_timeout"}) {
      milliseconds ignored{};  // no such limit here
      seconds(key, ignored);
    }
    if (const auto* value = find("is_host")) keep(conf_.is_host, "is_host", parse_truth(*value));
    if (const auto* value = find("check_users")) {
      keep(conf_.checks_users, "check_users", parse_truth(*value));
    }
    if (const auto* value = find("use_libuv")) {
      bool ignored = false;  // the store here serves both kinds of clients
      keep(ignored, "use_libuv", parse_truth(*value));
    }
    if (const auto* value = find("rank")) {
      keep(conf_.rank, "rank", parse_integer(*value, 0, kNodeRankMax));
    }
    if (const auto* value = find("store_type"); value != nullptr && *value != "tcp") {
      problem("store_type", "the only store is tcp");
    }
    if (const auto* value = find("store_port")) {
      int port = 0;
      keep(port, "store_port", parse_integer(*value, 0, kPortMax));
      conf_.settings.store_port = static_cast<std::uint16_t>(port);
    }
    read_etcd();
    check_names();
    return conf_;
  }

 private:
  const std::string* find(const std::string& key) {
    known_.push_back(key);
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  template <typename T, typename Value>
  void keep(T& into, const std::string& key, Parsed<Value> parsed) {
    if (const auto* wrong = std::get_if<ValueProblem>(&parsed)) return problem(key, wrong->text);
    into = std::get<Value>(parsed);
  }

  void seconds(const std::string& key, milliseconds& into, milliseconds least = milliseconds(0),
               milliseconds most = kYear) {
    if (const auto* value = find(key)) keep(into, key, parse_seconds(*value, least, most));
  }

  /// torchrun has an interval of heartbeats and a maximum number of missed ones.
  void read_lease(milliseconds& lease) {
    milliseconds interval{0};
    int attempts = 3;
    seconds("keep_alive_interval", interval);
    if (const auto* value = find("keep_alive_max_attempt")) {
      keep(attempts, "keep_alive_max_attempt", parse_integer(*value, 1, kKeepAlivesMax));
    }
    if (interval.count() > 0) lease = interval * attempts;
    seconds("lease_timeout", lease);
    if (lease < kLeaseMin) {
      problem("lease_timeout",
              "a node that is busy for a moment would be taken for lost (at "
              "least 0.2 s)");
    }
  }

  void read_etcd() {
    if (const auto* value = find("etcd_prefix")) {
      conf_.etcd.prefix = *value;
      if (value->empty()) problem("etcd_prefix", "is empty");
      if (value->ends_with('/')) problem("etcd_prefix", "ends with '/'");
    }
    if (const auto* value = find("etcd_lease_timeout")) {
      auto lease = static_cast<int>(conf_.etcd.lease.count());
      keep(lease, "etcd_lease_timeout",
           parse_integer(*value, etcd::kLeaseMin.count(), kYear.count()));
      conf_.etcd.lease = std::chrono::seconds(lease);
    }
    read_tls();
  }

  /// torchrun's two backends for etcd use different names for the same file.
  void read_tls() {
    security::TlsFiles files;
    std::string last;  // last key given
    const auto file = [&](std::string& into, std::initializer_list<const char*> keys) {
      for (const char* key : keys) {
        const auto* value = find(key);
        if (value == nullptr) continue;
        if (value->empty()) {
          problem(key, "is empty; give a file in PEM format");
          continue;
        }
        into = *value;
        last = key;
      }
    };
    file(files.authorities, {"cacert", "ca_cert"});
    file(files.certificate, {"cert", "ssl_cert"});
    file(files.key, {"key", "ssl_cert_key"});
    const auto* protocol = find("protocol");
    const auto name = protocol == nullptr ? "http" : to_lower(*protocol);
    if (name == "https") {
      conf_.etcd.tls = files;
      if (!files.key.empty() && files.certificate.empty()) {
        problem(last, "belongs to a certificate; give that, too (cert)");
      }
    } else if (name != "http") {
      problem("protocol", "is neither http nor https");
    } else if (!last.empty()) {
      problem(last, "is for --rdzv_backend=etcd with protocol=https");
    }
  }

  void check_names() {
    for (const auto& [key, value] : values_) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const auto nearest = nearest_word(key, known_);
      problem(key, "unknown key; " + (nearest.empty() ? "see 'Settings of the rendezvous' in "
                                                        "ddprun(1)"
                                                      : "did you mean " + nearest + "?"));
    }
  }

  void problem(const std::string& key, const std::string& text) {
    const auto found = values_.find(key);
    const auto value = found == values_.end() ? std::string() : "=" + found->second;
    problems_.push_back("--rdzv_conf=" + key + value + ": " + text);
  }

  const std::map<std::string, std::string>& values_;
  std::vector<std::string>& problems_;
  std::vector<std::string> known_;
  RdzvConf conf_;
};

}  // namespace

RdzvConf read_rdzv_conf(const std::map<std::string, std::string>& values,
                        std::vector<std::string>& problems) {
  return Reader(values, problems).read();
}

}  // namespace ddprun
