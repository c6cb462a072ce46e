#include "trainers/tracking/http_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <netdb.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace trainer {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);
using Request = http::request<http::string_body>;
using Parser = http::response_parser<http::string_body>;
using Endpoints = std::vector<tcp::endpoint>;

/// Returns no endpoints, and the reason in `problem`, if the host has no address.
Endpoints look_up(const ServerAddress& server, std::string& problem) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  if (error != 0) problem = "its name has no address (" + std::string(::gai_strerror(error)) + ")";
  Endpoints endpoints;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    tcp::endpoint endpoint;
    if (one->ai_addrlen > endpoint.capacity()) continue;
    endpoint.resize(one->ai_addrlen);
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                reinterpret_cast<char*>(endpoint.data()));
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Request make_request(const ServerAddress& server, const HttpRequest& request,
                     const std::string& authorization) {
  Request made(request.is_post ? http::verb::post : http::verb::get, server.path + request.path,
               11);
  const bool is_ipv6 = server.host.find(':') != std::string::npos;
  made.set(http::field::host,
           (is_ipv6 ? "[" + server.host + "]" : server.host) + ":" + server.port);
  made.set(http::field::connection, "close");
  made.set(http::field::user_agent, "ddprun");
  if (!authorization.empty()) made.set(http::field::authorization, authorization);
  if (request.is_post) made.set(http::field::content_type, "application/json");
  made.body() = request.body;
  made.prepare_payload();
  return made;
}

std::string describe(const boost::system::error_code& error, const ddprun::Deadline& deadline) {
  if (error == beast::error::timeout) return "no answer " + deadline.describe();
  if (error == http::error::end_of_stream) return "it closed the connection without an answer";
  if (error.category() == http::make_error_code(http::error::bad_version).category()) {
    return "its answer is not HTTP (" + error.message() + ")";
  }
  return error.message();
}

}  // namespace

/// The objects that the coroutine of an exchange refers to.
struct HttpClient::State {
  asio::io_context context;
  beast::tcp_stream stream{context};
  Endpoints endpoints;
  Request request;
  Parser parser;
  beast::flat_buffer buffer;
  /// Cleared when the whole answer is in the parser; stays set if the exchange is interrupted.
  boost::system::error_code error = asio::error::operation_aborted;

  asio::awaitable<void> run();
  void fail(const boost::system::error_code& why) { error = why; }
};

asio::awaitable<void> HttpClient::State::run() {
  const auto connected = co_await stream.async_connect(endpoints, kAwaitTuple);
  if (std::get<0>(connected)) co_return fail(std::get<0>(connected));
  const auto written = co_await http::async_write(stream, request, kAwaitTuple);
  if (std::get<0>(written)) co_return fail(std::get<0>(written));
  const auto read = co_await http::async_read(stream, buffer, parser, kAwaitTuple);
  error = std::get<0>(read);
}

/// Makes the exchange known to interrupt() while this object exists.
class HttpClient::Reachable {
 public:
  Reachable(HttpClient& client, State& state) : client_(client) {
    const std::lock_guard lock(client_.mutex_);
    client_.current_ = &state;
    if (client_.is_interrupted_) state.context.stop();
  }
  ~Reachable() {
    const std::lock_guard lock(client_.mutex_);
    client_.current_ = nullptr;
  }
  Reachable(const Reachable&) = delete;
  Reachable& operator=(const Reachable&) = delete;

 private:
  HttpClient& client_;
};

HttpClient::HttpClient(ServerAddress server, std::string authorization)
    : server_(std::move(server)), authorization_(std::move(authorization)) {}

HttpAnswer HttpClient::exchange(const HttpRequest& request, ddprun::Deadline deadline) try {
  State state;
  std::string problem;
  state.endpoints = look_up(server_, problem);
  if (state.endpoints.empty()) return {.status = 0, .text = problem};
  state.request = make_request(server_, request, authorization_);
  state.parser.body_limit(kAnswerBytesMax);
  state.stream.expires_at(deadline.time());
  asio::co_spawn(state.context, state.run(), asio::detached);
  {
    const Reachable reachable(*this, state);
    state.context.run();
  }
  if (state.error) return {.status = 0, .text = describe(state.error, deadline)};
  return {.status = state.parser.get().result_int(), .text = std::move(state.parser.get().body())};
} catch (const std::exception& error) {
  // A lack of descriptors or memory must not end the training.
  return {.status = 0, .text = error.what()};
}

void HttpClient::interrupt() {
  const std::lock_guard lock(mutex_);
  is_interrupted_ = true;
  if (current_ != nullptr) current_->context.stop();
}

}  // namespace trainer
