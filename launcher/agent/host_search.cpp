#include "launcher/agent/host_search.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <string>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

std::optional<security::Secret> secret_of(const LaunchOptions& options) {
  if (options.secret_file.empty()) return std::nullopt;
  return security::read_secret(options.secret_file, "--secret_file=" + options.secret_file);
}

}  // namespace

HostSearch::HostSearch(asio::any_io_executor executor, const LaunchPlan& plan, UserCheck users,
                       Log log)
    : executor_(std::move(executor)),
      nodes_(*plan.nodes),
      users_(std::move(users)),
      log_(std::move(log)),
      secret_(secret_of(plan.options)) {}

asio::awaitable<std::unique_ptr<membership::Host>> HostSearch::find(membership::Join self,
                                                                    etcd::OfficeNotice on_renewal) {
  const membership::HostChoice choice{
      .endpoint = {.host = nodes_.endpoint_host, .port = nodes_.endpoint_port},
      .is_host = nodes_.is_host,
      .settings = nodes_.settings,
      .admission = {.secret = secret(), .user = users_}};
  if (nodes_.etcd) {
    co_return etcd::elect_host(executor_, *nodes_.etcd, choice, std::move(self),
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
