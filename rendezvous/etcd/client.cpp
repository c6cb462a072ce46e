#include "rendezvous/etcd/client.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/etcd/channel.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/foreign_peer.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <sstream>
#include <utility>

namespace ddprun::etcd {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

/// Timeout after which a request tries the next endpoint.
constexpr auto kEndpointTimeout = std::chrono::seconds(5);

constexpr unsigned kOk = 200;
/// Statuses from here on mean that the endpoint cannot serve requests now.
constexpr unsigned kServerErrors = 500;

using Request = http::request<http::string_body>;
using Parser = http::response_parser<http::string_body>;

Request make_request(const StoreEndpoint& endpoint, const char* path, std::string body) {
  Request request(http::verb::post, path, 11);
  request.set(http::field::host, to_string(endpoint));
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

void prepare(Parser& parser) {
  parser.body_limit(kAnswerBytesMax);
  parser.eager(true);
}

/// Error of reading the answer; no error: the parser has the answer.
struct ExchangeFailure {
  boost::system::error_code error;
  std::string first_bytes{};  ///< first bytes of a reply that cannot be parsed
  std::string tls_problem{};  ///< see TlsSession::problem()

  std::string text() const {
    if (!tls_problem.empty()) return tls_problem;
    if (error == asio::error::eof) {
      return "it closed the connection during the TLS handshake; give --rdzv_conf=protocol=http if "
             "it does not use TLS";
    }
    if (error == http::error::end_of_stream) {
      return "it closed the connection without an answer; give --rdzv_conf=protocol=https if it "
             "uses TLS";
    }
    if (error != http::error::bad_version) return error.message();
    const auto foreign = membership::describe_foreign(first_bytes, "etcd");
    return "the server that responds " +
           (foreign.empty() ? std::string("is not an HTTP server, hence not etcd") : foreign);
  }
};

std::string text_of(const Request& request) {
  std::ostringstream text;
  text << request;
  return std::move(text).str();
}

/// Feeds received bytes to the parser; need_more is not an error.
boost::system::error_code parse(Parser& parser, boost::beast::flat_buffer& buffer) {
  boost::system::error_code error;
  while (!error && buffer.size() > 0 && !parser.is_done()) {
    buffer.consume(parser.put(buffer.data(), error));
  }
  return error == http::error::need_more ? boost::system::error_code() : error;
}

/// Describes why a connection has ended.
boost::system::error_code end_of(Parser& parser) {
  boost::system::error_code error = http::error::end_of_stream;
  if (parser.got_some()) parser.put_eof(error = {});
  return error;
}

/// Receives once. Returns an error or none.
asio::awaitable<boost::system::error_code> receive(Channel& channel, Parser& parser,
                                                   boost::beast::flat_buffer& buffer) {
  auto receiving = channel.receive(buffer);
  const auto received = co_await std::move(receiving);
  if (received == asio::error::eof) co_return end_of(parser);
  co_return received ? received : parse(parser, buffer);
}

asio::awaitable<ExchangeFailure> exchange(Channel& channel, std::string request, Parser& parser) {
  auto opening = channel.open();
  auto opened = co_await std::move(opening);
  // A server that closes during the handshake resets the connection.
  if (opened == asio::error::connection_reset) opened = asio::error::eof;
  if (opened) co_return ExchangeFailure{opened, {}, channel.problem()};
  auto sending = channel.send(std::move(request));
  const auto sent = co_await std::move(sending);
  if (sent) co_return ExchangeFailure{sent, {}, channel.problem()};
  boost::beast::flat_buffer buffer;
  while (!parser.is_done()) {
    auto receiving = receive(channel, parser, buffer);
    const auto error = co_await std::move(receiving);
    if (!error) continue;
    const auto size = std::min(buffer.size(), membership::kFirstBytesMax);
    co_return ExchangeFailure{
        error, {static_cast<const char*>(buffer.data().data()), size}, channel.problem()};
  }
  co_return ExchangeFailure{};
}

/// Reads the lines of a watch. Returns true on a change.
asio::awaitable<bool> await_change(Channel& channel, std::string request) {
  auto opening = channel.open();
  const auto opened = co_await std::move(opening);
  if (opened) co_return false;
  auto sending = channel.send(std::move(request));
  const auto sent = co_await std::move(sending);
  if (sent) co_return false;
  boost::beast::flat_buffer buffer;
  Parser parser;
  prepare(parser);
  std::size_t taken = 0;
  while (!parser.is_done()) {
    auto receiving = receive(channel, parser, buffer);
    const auto error = co_await std::move(receiving);
    if (error) co_return false;
    const auto has_changed = read_watch(parser.get().body(), taken);
    if (has_changed) co_return *has_changed;
  }
  co_return false;
}

/// Returns an equal share of the remaining time for each endpoint.
Deadline share_of(Deadline deadline, std::size_t endpoints) {
  const auto share = deadline.remaining() / static_cast<Deadline::Duration::rep>(endpoints);
  return Deadline::after(std::min<Deadline::Duration>(share, kEndpointTimeout));
}

}  // namespace

Client::Client(asio::any_io_executor executor, std::vector<StoreEndpoint> endpoints,
               std::shared_ptr<const security::TlsContext> tls)
    : executor_(std::move(executor)), endpoints_(std::move(endpoints)), tls_(std::move(tls)) {}

std::unique_ptr<security::TlsSession> Client::session_with(const StoreEndpoint& endpoint) const {
  return tls_ ? std::make_unique<security::TlsSession>(tls_, endpoint.host) : nullptr;
}

asio::awaitable<Client::Answer> Client::call_endpoint(std::size_t index, const char* path,
                                                      std::string body, Deadline deadline) {
  const StoreEndpoint endpoint = endpoints_[index];
  const auto name = "etcd at " + to_string(endpoint) + ": ";
  const auto connected = co_await membership::connect_to(endpoint, deadline);
  if (connected.fd < 0) co_return Answer{.text = name + connected.problem};
  Channel channel(executor_, connected.fd, session_with(endpoint));
  auto request = text_of(make_request(endpoint, path, std::move(body)));
  Parser parser;
  prepare(parser);
  auto exchanging = exchange(channel, std::move(request), parser);
  const auto failure = co_await with_deadline(std::move(exchanging), deadline);
  if (!failure || failure->error == asio::error::operation_aborted) {
    co_return Answer{.text = name + "no answer " + deadline.describe()};
  }
  if (failure->error) co_return Answer{.text = name + failure->text()};
  if (auto local = channel.local_address(); !local.empty()) local_address_ = std::move(local);
  const auto status = parser.get().result_int();
  if (status == kOk) co_return Answer{status, std::move(parser.get().body())};
  co_return Answer{status, name + error_in(status, parser.get().body())};
}

asio::awaitable<Client::Answer> Client::call(const char* path, std::string body,
                                             Deadline deadline) {
  Answer answer;
  const auto first = preferred_;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const auto index = (first + i) % endpoints_.size();
    const auto limit = share_of(deadline, endpoints_.size() - i);
    auto pending = call_endpoint(index, path, body, limit);
    answer = co_await std::move(pending);
    if (answer.status == 0 || answer.status >= kServerErrors) continue;
    preferred_ = index;
    break;
  }
  co_return answer;
}

asio::awaitable<Result<Lease>> Client::grant(std::chrono::seconds time, Deadline deadline) {
  auto pending = call("/v3/lease/grant", lease_request(time), deadline);
  const auto answer = co_await std::move(pending);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_lease(answer.text);
}

asio::awaitable<Result<std::chrono::seconds>> Client::renew(LeaseId lease, Deadline deadline) {
  auto pending = call("/v3/lease/keepalive", renewal_request(lease), deadline);
  const auto answer = co_await std::move(pending);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_renewal(answer.text);
}

asio::awaitable<Result<TransactionAnswer>> Client::commit(Transaction transaction,
                                                          Deadline deadline) {
  auto pending = call("/v3/kv/txn", transaction_request(transaction), deadline);
  const auto answer = co_await std::move(pending);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_transaction(answer.text);
}

asio::awaitable<void> Client::revoke(LeaseId lease, Deadline deadline) {
  auto pending = call("/v3/lease/revoke", revocation_request(lease), deadline);
  co_await std::move(pending);
}

asio::awaitable<bool> Client::wait_for_change(Range range, Revision first, Deadline deadline) {
  const StoreEndpoint at = endpoint();
  const auto connected = co_await membership::connect_to(at, deadline);
  if (connected.fd < 0) co_return false;
  Channel channel(executor_, connected.fd, session_with(at));
  auto request = text_of(make_request(at, "/v3/watch", watch_request(range, first)));
  auto reading = await_change(channel, std::move(request));
  const auto has_changed = co_await with_deadline(std::move(reading), deadline);
  co_return has_changed.value_or(false);
}

}  // namespace ddprun::etcd
