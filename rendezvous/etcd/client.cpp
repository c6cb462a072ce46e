#include "rendezvous/etcd/client.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include "rendezvous/membership/connect.hpp"
#include "rendezvous/membership/foreign_speech.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <sys/socket.h>
#include <utility>

namespace ddprun::etcd {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

/// From here on a request is worth no more time at an endpoint that does not answer.
constexpr auto kEndpointTimeout = std::chrono::seconds(5);

constexpr unsigned kOk = 200;
/// Statuses from here on say that this endpoint cannot serve anybody now.
constexpr unsigned kServerErrors = 500;

using Request = http::request<http::string_body>;
using Parser = http::response_parser<http::string_body>;

tcp protocol_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
}

Request make_request(const StoreEndpoint& endpoint, const char* path, std::string body) {
  Request request(http::verb::post, path, 11);
  request.set(http::field::host, to_string(endpoint));
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

/// Why the answer is not in the parser; no error: it is.
struct ExchangeFailure {
  boost::system::error_code error;
  std::string first_words{};  ///< of what cannot be read

  std::string text() const {
    if (error != http::error::bad_version) return error.message();
    const auto foreign = membership::describe_foreign(first_words, "etcd");
    return "what answers there " +
           (foreign.empty() ? std::string("is no HTTP server, hence no etcd") : foreign);
  }
};

asio::awaitable<ExchangeFailure> exchange(tcp::socket& socket, Request& request, Parser& parser) {
  const auto written = co_await http::async_write(socket, request, kAwait);
  if (std::get<0>(written)) co_return ExchangeFailure{std::get<0>(written)};
  boost::beast::flat_buffer buffer;
  const auto read = co_await http::async_read(socket, buffer, parser, kAwait);
  const auto size = std::min(buffer.size(), membership::kFirstWordsMax);
  co_return ExchangeFailure{std::get<0>(read),
                            {static_cast<const char*>(buffer.data().data()), size}};
}

/// Reads what comes of a watch, line by line. True: something has changed.
asio::awaitable<bool> await_change(tcp::socket& socket, Request& request) {
  const auto written = co_await http::async_write(socket, request, kAwait);
  if (std::get<0>(written)) co_return false;
  boost::beast::flat_buffer buffer;
  Parser parser;
  parser.body_limit(kAnswerBytesMax);
  std::size_t taken = 0;
  while (!parser.is_done()) {
    const auto read = co_await http::async_read_some(socket, buffer, parser, kAwait);
    if (std::get<0>(read)) co_return false;
    const auto told = read_watch(parser.get().body(), taken);
    if (told) co_return *told;
  }
  co_return false;
}

/// Of the time that is left, the share of one of so many endpoints.
Deadline share_of(Deadline deadline, std::size_t endpoints) {
  const auto share = deadline.remaining() / static_cast<Deadline::Duration::rep>(endpoints);
  return Deadline::after(std::min<Deadline::Duration>(share, kEndpointTimeout));
}

}  // namespace

Client::Client(asio::any_io_executor executor, std::vector<StoreEndpoint> endpoints)
    : executor_(std::move(executor)), endpoints_(std::move(endpoints)) {}

asio::awaitable<Client::Answer> Client::ask_endpoint(std::size_t index, const char* path,
                                                     std::string body, Deadline deadline) {
  const StoreEndpoint endpoint = endpoints_[index];
  const auto name = "etcd at " + to_string(endpoint) + ": ";
  const auto connected = co_await membership::connect_to(endpoint, deadline);
  if (connected.fd < 0) co_return Answer{.text = name + connected.problem};
  tcp::socket socket(executor_, protocol_of(connected.fd), connected.fd);
  auto request = make_request(endpoint, path, std::move(body));
  Parser parser;
  parser.body_limit(kAnswerBytesMax);
  auto exchanging = exchange(socket, request, parser);
  const auto failure = co_await with_deadline(std::move(exchanging), deadline);
  if (!failure || failure->error == asio::error::operation_aborted) {
    co_return Answer{.text = name + "no answer " + deadline.describe()};
  }
  if (failure->error) co_return Answer{.text = name + failure->text()};
  boost::system::error_code unknown;
  const auto local = socket.local_endpoint(unknown);
  if (!unknown) local_address_ = local.address().to_string();
  const auto status = parser.get().result_int();
  if (status == kOk) co_return Answer{status, std::move(parser.get().body())};
  co_return Answer{status, name + error_in(status, parser.get().body())};
}

asio::awaitable<Client::Answer> Client::ask(const char* path, std::string body, Deadline deadline) {
  Answer answer;
  const auto first = preferred_;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const auto index = (first + i) % endpoints_.size();
    const auto limit = share_of(deadline, endpoints_.size() - i);
    auto asking = ask_endpoint(index, path, body, limit);
    answer = co_await std::move(asking);
    if (answer.status == 0 || answer.status >= kServerErrors) continue;
    preferred_ = index;
    break;
  }
  co_return answer;
}

asio::awaitable<Result<Lease>> Client::grant(std::chrono::seconds time, Deadline deadline) {
  auto asking = ask("/v3/lease/grant", lease_request(time), deadline);
  const auto answer = co_await std::move(asking);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_lease(answer.text);
}

asio::awaitable<Result<std::chrono::seconds>> Client::renew(LeaseId lease, Deadline deadline) {
  auto asking = ask("/v3/lease/keepalive", renewal_request(lease), deadline);
  const auto answer = co_await std::move(asking);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_renewal(answer.text);
}

asio::awaitable<Result<TransactionAnswer>> Client::commit(Transaction transaction,
                                                          Deadline deadline) {
  auto asking = ask("/v3/kv/txn", transaction_request(transaction), deadline);
  const auto answer = co_await std::move(asking);
  if (answer.status != kOk) co_return Problem{answer.text};
  co_return parse_transaction(answer.text);
}

asio::awaitable<void> Client::revoke(LeaseId lease, Deadline deadline) {
  auto asking = ask("/v3/lease/revoke", revocation_request(lease), deadline);
  co_await std::move(asking);
}

asio::awaitable<bool> Client::wait_for_change(Range range, Revision first, Deadline deadline) {
  const StoreEndpoint at = endpoint();
  const auto connected = co_await membership::connect_to(at, deadline);
  if (connected.fd < 0) co_return false;
  tcp::socket socket(executor_, protocol_of(connected.fd), connected.fd);
  auto request = make_request(at, "/v3/watch", watch_request(range, first));
  auto reading = await_change(socket, request);
  const auto has_changed = co_await with_deadline(std::move(reading), deadline);
  co_return has_changed.value_or(false);
}

}  // namespace ddprun::etcd
