#include "rendezvous/membership/host.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/coordinator_server.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace asio = boost::asio;

namespace {

/// In Kubernetes, a DNS name may be created some seconds after the containers that look it up.
constexpr auto kLookupPause = std::chrono::seconds(1);

asio::awaitable<std::vector<std::string>> find_endpoint(asio::any_io_executor executor,
                                                        StoreEndpoint endpoint, Log log,
                                                        Deadline deadline,
                                                        std::chrono::milliseconds notice_pause) {
  asio::steady_timer pause(executor);
  auto next_notice = Deadline::Clock::now();
  std::string problem = "cannot look up " + endpoint.host;
  while (true) {
    const auto found = co_await addresses_of(endpoint.host, deadline);
    if (!found.addresses.empty()) co_return found.addresses;
    // A look-up that exceeds the deadline sets no problem.
    if (!found.problem.empty()) problem = found.problem;
    if (deadline.remaining() <= kLookupPause) {
      pause.expires_at(deadline.time());
      co_await pause.async_wait(kAwait);
      throw Error(Errc::network, "rendezvous at " + to_string(endpoint) + ": " + problem + ", " +
                                     deadline.describe());
    }
    if (Deadline::Clock::now() >= next_notice) {
      next_notice = Deadline::Clock::now() + notice_pause;
      write_log(log, LogLevel::warn,
                "rendezvous at " + to_string(endpoint) + ": " + problem + "; trying again for " +
                    seconds_text(std::chrono::ceil<std::chrono::seconds>(deadline.remaining())));
    }
    pause.expires_after(kLookupPause);
    co_await pause.async_wait(kAwait);
  }
}

bool is_this_machine(const std::vector<std::string>& addresses) {
  const auto own = own_addresses();
  return std::any_of(addresses.begin(), addresses.end(), [&](const auto& address) {
    return is_loopback(address) || std::find(own.begin(), own.end(), address) != own.end();
  });
}

/// Returns true if the name is a loopback address on every machine, not only in this one's hosts
/// file.
bool is_loopback_by_name(const std::string& host) {
  return host == "localhost" || is_loopback(host);
}

constexpr const char* kMeantToHost = "this node hosts it (--node_rank=0 or is_host=1)";

/// Warns of a host whose endpoint is not an address of its machine.
void warn_of_address(const StoreEndpoint& endpoint, const Log& log) {
  auto own = own_addresses();
  std::erase_if(own, is_loopback);
  write_log(log, LogLevel::warn,
            "rendezvous at " + to_string(endpoint) + ": " + kMeantToHost +
                ", but the address is not one of this machine's (" + listed(std::move(own)) +
                "); without a forwarded port the other nodes cannot connect; check "
                "--rdzv_endpoint, --node_rank and is_host");
}

/// Does not use the host, which may be destroyed before it ends.
asio::awaitable<Found> find_at(asio::any_io_executor executor, Found found, Time not_before) {
  asio::steady_timer pause(executor, not_before);
  co_await pause.async_wait(kAwait);
  co_return found;
}

asio::awaitable<void> return_at_once() {
  co_return;
}

class FixedHost : public Host {
 public:
  FixedHost(asio::any_io_executor executor, const HostChoice& choice)
      : executor_(std::move(executor)),
        found_{.endpoint = choice.endpoint, .connect_timeout = choice.settings.join_timeout} {}

  void listen(const HostChoice& choice, const std::string& address, const Log& log) {
    server_ =
        std::make_unique<CoordinatorServer>(executor_, StoreEndpoint{address, choice.endpoint.port},
                                            choice.admission, choice.settings.store_port, log);
    server_->begin(choice.settings, LeadershipTerm{});
    if (!choice.admission.other_agents) {
      found_.local = &server_->coordinator();
      return;
    }
    note_ = hosting_note(choice.endpoint, server_->store_port());
    if (address == kAllAddresses) {
      note_ += ", listening on all of its addresses";
      if (choice.admission.secret == nullptr) warn_of_openness(choice.endpoint, log);
    } else {
      found_.endpoint->host = address;
    }
  }

  bool is_here() const override { return server_ != nullptr; }
  const StoreServer* store() const override { return server_ ? &server_->store() : nullptr; }
  const std::string& note() const override { return note_; }
  asio::awaitable<Found> find(Time not_before) override {
    return find_at(executor_, found_, not_before);
  }
  void resign() override {}  // the run ends with its host
  asio::awaitable<void> wait_until_over() override {
    return server_ ? server_->coordinator().wait_until_over() : return_at_once();
  }

  std::vector<std::string> refusals() const override {
    return server_ ? server_->coordinator().refusals() : std::vector<std::string>();
  }

  std::exception_ptr failure() const override {
    return server_ ? server_->coordinator().failure() : nullptr;
  }

 private:
  asio::any_io_executor executor_;
  Found found_;
  std::string note_;
  std::unique_ptr<CoordinatorServer> server_;
};

}  // namespace

std::string hosting_note(const StoreEndpoint& rendezvous, std::uint16_t store_port) {
  const std::string note = "this node hosts the rendezvous ";
  // Logged, since two machines that both host a loopback address never meet.
  const std::string reach =
      is_loopback_by_name(rendezvous.host) ? ", reachable only from this machine" : "";
  if (store_port == rendezvous.port)
    return note + "and the store at " + to_string(rendezvous) + reach;
  return note + "at " + to_string(rendezvous) + " and the store at " +
         to_string(StoreEndpoint{rendezvous.host, store_port}) + reach;
}

void warn_of_openness(const StoreEndpoint& endpoint, const Log& log) {
  write_log(log, LogLevel::warn,
            "rendezvous at " + to_string(endpoint) +
                ": this machine cannot listen on the address of this name only, so any machine "
                "that reaches one of its addresses can take part in the run");
}

std::string bind_address(const std::string& host, const std::vector<std::string>& addresses) {
  // A name that is a loopback address only on this machine (Debian's 127.0.1.1) is another address
  // on other nodes.
  const auto own = own_addresses();
  const auto is_own = [&](const std::string& address) {
    return std::find(own.begin(), own.end(), address) != own.end();
  };
  const auto fitting = std::find_if(addresses.begin(), addresses.end(), [&](const auto& address) {
    return !is_loopback(address) && is_own(address);
  });
  if (fitting != addresses.end()) return *fitting;
  if (is_loopback_by_name(host)) return addresses.front();
  return kAllAddresses;
}

asio::awaitable<std::unique_ptr<Host>> choose_host(asio::any_io_executor executor,
                                                   HostChoice choice, Log log) {
  auto host = std::make_unique<FixedHost>(executor, choice);
  if (!choice.is_host.value_or(true)) co_return host;
  if (!choice.admission.other_agents) {
    host->listen(choice, choice.endpoint.host, log);
    co_return host;
  }
  const auto deadline = Deadline::after(choice.settings.join_timeout);
  auto finding =
      find_endpoint(executor, choice.endpoint, log, deadline, choice.settings.waiting_notice);
  const auto addresses = co_await std::move(finding);
  const bool must_host = choice.is_host.has_value();
  if (!must_host && !is_this_machine(addresses)) co_return host;
  const auto address = bind_address(choice.endpoint.host, addresses);
  if (must_host && !is_this_machine(addresses)) warn_of_address(choice.endpoint, log);
  try {
    host->listen(choice, address, log);
  } catch (const Error& error) {
    if (error.code() != Errc::system) throw;
    // Another agent of this machine may be the host; if not, joining fails.
    if (must_host) {
      throw Error(Errc::system,
                  std::string(error.what()) + "; " + kMeantToHost + "; start one such node only");
    }
  }
  co_return host;
}

}  // namespace ddprun::membership
