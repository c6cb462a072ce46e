#include "launcher/agent/host_search.hpp"

#include "launcher/agent/placement.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <string>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

std::optional<security::Secret> secret_of(const LaunchPlan& plan) {
  const auto& file = plan.options.secret_file;
  if (!plan.nodes || file.empty()) return std::nullopt;
  return security::read_secret(file, "--secret_file=" + file);
}

}  // namespace

HostSearch::HostSearch(asio::any_io_executor executor, const LaunchPlan& plan, UserCheck users,
                       Log log)
    : executor_(std::move(executor)),
      plan_(plan),
      users_(std::move(users)),
      log_(std::move(log)),
      secret_(secret_of(plan)) {}

asio::awaitable<std::unique_ptr<membership::Host>> HostSearch::find(
    membership::Join self, etcd::RenewalCallback on_renewal) {
  const auto& nodes = plan_.nodes;
  const membership::HostChoice choice{
      .endpoint = nodes ? StoreEndpoint{nodes->endpoint_host, nodes->endpoint_port}
                        : StoreEndpoint{plan_.store_host, plan_.store_port},
      .is_host = nodes ? nodes->is_host : true,
      .settings = membership_settings(plan_),
      .admission = {.other_agents = nodes.has_value(), .secret = secret(), .user = users_}};
  if (nodes && nodes->etcd) {
    co_return etcd::elect_host(executor_, *nodes->etcd, choice, std::move(self),
                               std::move(on_renewal), log_);
  }
  auto choosing = membership::choose_host(executor_, choice, log_);
  auto token = asio::bind_cancellation_slot(interruption_.slot(), asio::use_awaitable);
  try {
    co_return co_await asio::co_spawn(executor_, std::move(choosing), std::move(token));
  } catch (const boost::system::system_error&) {
    if (!is_interrupted_) throw;
  }
  co_return nullptr;
}

void HostSearch::interrupt() {
  is_interrupted_ = true;
  interruption_.emit(asio::cancellation_type::terminal);
}

}  // namespace ddprun
