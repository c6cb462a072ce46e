#include "launcher/ssh/node_connection.hpp"

#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/ssh/ssh_command.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <utility>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

/// For the login and the start of ddprun on the node. ssh's own limit covers the connection only.
constexpr auto kStartLimit = 60s;

/// Silence after the agent's exit. A process that outlives the agent may keep its output open.
constexpr auto kRestLimit = 2s;

}  // namespace

NodeConnection::NodeConnection(const asio::any_io_executor& executor, NodeConsole& console,
                               std::uint32_t node, ProcessRequest request, std::string program)
    : executor_(executor),
      process_(executor),
      console_(console),
      node_(node),
      request_(std::move(request)),
      program_(std::move(program)),
      changed_(executor),
      limit_(executor) {}

asio::awaitable<ConnectionEnd> NodeConnection::run(std::string message,
                                                   std::function<void()> on_started) {
  outgoing_ = std::move(message) + outgoing_;
  on_started_ = std::move(on_started);
  auto request = request_;
  request.environment = own_environment();
  const auto failure = co_await process_.start(request);
  if (failure) {
    co_return ConnectionEnd{.kind = ConnectionEnd::Kind::not_started,
                            .reason = describe_start_failure(*failure, request_.arguments[0], "")};
  }
  limit_.expires_after(kStartLimit);
  limit_.async_wait([this](boost::system::error_code error) {
    if (!error) give_up(GiveUp::no_answer);
  });
  auto reading = asio::co_spawn(executor_, run_process(), asio::deferred);
  auto writing = asio::co_spawn(executor_, write(), asio::deferred);
  auto both = asio::experimental::make_parallel_group(std::move(reading), std::move(writing));
  auto ended = co_await both.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  for (const auto& problem : {std::get<1>(ended), std::get<2>(ended)}) {
    if (problem) std::rethrow_exception(problem);
  }
  co_return end();
}

void NodeConnection::signal(int number) {
  outgoing_ += static_cast<char>(number);
  changed_.notify_all();
}

void NodeConnection::cancel_start() {
  if (!greeting_.has_greeting()) give_up(GiveUp::run_is_over);
}

asio::awaitable<void> NodeConnection::run_process() {
  auto running = process_.run([this](std::string_view bytes) { return read_output(bytes); },
                              [this](std::string_view bytes) { return read_error(bytes); });
  exit_code_ = co_await std::move(running);
  limit_.cancel();
  has_ended_ = true;
  changed_.notify_all();
  boost::system::error_code ignored;
  process_.input().cancel(ignored);
}

asio::awaitable<void> NodeConnection::write() {
  boost::system::error_code error;
  while (!error && !has_ended_) {
    if (outgoing_.empty()) {
      co_await changed_.wait();
      continue;
    }
    const auto bytes = std::exchange(outgoing_, {});
    co_await asio::async_write(process_.input(), asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
  }
}

asio::awaitable<void> NodeConnection::read_output(std::string_view bytes) {
  const bool is_started = greeting_.has_greeting();
  const auto parts = greeting_.read(bytes);
  if (!parts.noise.empty()) show_error(parts.noise);
  if (!is_started && greeting_.has_greeting()) {
    limit_.cancel();
    show_error(held_line_.release());
    on_started_();
  }
  if (greeting_.has_failed()) give_up(GiveUp::not_ddprun);
  console_.write(node_, false, parts.output);
  limit_rest();
  co_await console_.wait_for_room();
}

asio::awaitable<void> NodeConnection::read_error(std::string_view bytes) {
  show_error(greeting_.has_greeting() ? std::string(bytes) : held_line_.add(bytes));
  limit_rest();
  co_await console_.wait_for_room();
}

void NodeConnection::show_error(const std::string& bytes) {
  console_.write(node_, true, bytes);
}

/// Restarts the limit with each piece of output, which the console may accept slowly.
void NodeConnection::limit_rest() {
  if (!console_.agent_exit(node_)) return;
  limit_.expires_after(kRestLimit);
  limit_.async_wait([this](boost::system::error_code error) {
    if (!error) kill();
  });
}

void NodeConnection::give_up(GiveUp reason) {
  if (!give_up_) give_up_ = reason;
  kill();
}

ConnectionEnd NodeConnection::end() {
  using Kind = ConnectionEnd::Kind;
  if (const auto exit_code = console_.agent_exit(node_)) {
    return {.kind = Kind::ended, .exit_code = *exit_code};
  }
  if (greeting_.has_greeting()) {
    return {.kind = Kind::lost, .reason = "the connection by ssh has ended"};
  }
  if (give_up_) {
    show_error(held_line_.release());
    return {.kind = Kind::not_started, .reason = describe(*give_up_)};
  }
  return {.kind = Kind::not_started,
          .reason = describe_no_answer(exit_code_, held_line_.text(), program_)};
}

std::string NodeConnection::describe(GiveUp reason) const {
  switch (reason) {
    case GiveUp::no_answer:
      return "no answer within 60 s";
    case GiveUp::run_is_over:
      return "the run was stopped before it responded";
    case GiveUp::not_ddprun:
      return program_ + " there printed output that is not ddprun's greeting";
  }
  return {};
}

}  // namespace ddprun::ssh
