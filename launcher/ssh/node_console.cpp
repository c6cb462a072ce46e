#include "launcher/ssh/node_console.hpp"

#include "rendezvous/base/text.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

LinePrefixer::TimePoint now() {
  return std::chrono::system_clock::now();
}

}  // namespace

NodeConsole::NodeConsole(const asio::any_io_executor& executor, std::vector<std::string> names)
    : names_(std::move(names)),
      out_(std::make_shared<ConsoleWriter>(executor, STDOUT_FILENO, false, Log())),
      error_(std::make_shared<ConsoleWriter>(executor, STDERR_FILENO, false, Log())) {}

NodeConsole::~NodeConsole() {
  out_->close();
  error_->close();
}

LinePrefixer& NodeConsole::prefixer(std::uint32_t node, bool is_error) {
  const auto& name = names_.at(node);
  return prefixers_.try_emplace({node, is_error}, LinePrefix(name.empty() ? "" : name + ": "))
      .first->second;
}

void NodeConsole::take(std::uint32_t node, bool is_error, std::string_view bytes) {
  auto& lines = prefixer(node, is_error);
  (is_error ? error_ : out_)->write(lines, lines.take(bytes, now()));
}

void NodeConsole::finish(std::uint32_t node) {
  for (const bool is_error : {false, true}) {
    auto& lines = prefixer(node, is_error);
    (is_error ? error_ : out_)->write(lines, lines.finish());
  }
}

void NodeConsole::say(const std::string& line) {
  error_->write(own_, own_.take("ddprun: " + printable(line) + "\n", now()));
}

asio::awaitable<void> NodeConsole::room() {
  boost::system::error_code ignored;
  for (const auto& console : {out_, error_}) {
    while (console->is_full()) {
      co_await console->room_signal().async_wait(
          asio::redirect_error(asio::use_awaitable, ignored));
    }
  }
}

asio::awaitable<void> NodeConsole::drain(Deadline deadline) {
  boost::system::error_code ignored;
  for (const auto& console : {out_, error_}) {
    while (!console->is_idle() && !deadline.passed()) {
      console->idle_signal().expires_at(deadline.time());
      co_await console->idle_signal().async_wait(
          asio::redirect_error(asio::use_awaitable, ignored));
    }
  }
}

}  // namespace ddprun::ssh
