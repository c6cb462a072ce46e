#include "launcher/ssh/node_console.hpp"

#include "rendezvous/base/text.hpp"

#include <charconv>
#include <unistd.h>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

LinePrefixer::TimePoint now() {
  return std::chrono::system_clock::now();
}

std::optional<int> read_exit_code(const std::string& text) {
  int code = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(code) : std::nullopt;
}

}  // namespace

NodeConsole::NodeConsole(const asio::any_io_executor& executor, std::vector<std::string> names,
                         bool has_prefix, std::string mark)
    : names_(std::move(names)), has_prefix_(has_prefix), mark_(std::move(mark)) {
  const Log log = [this](LogLevel, std::string_view line) { report_loss(std::string(line)); };
  out_ = std::make_shared<ConsoleWriter>(executor, STDOUT_FILENO, false, log);
  error_ = std::make_shared<ConsoleWriter>(executor, STDERR_FILENO, false, log);
}

NodeConsole::~NodeConsole() {
  out_->close();
  error_->close();
}

LinePrefixer& NodeConsole::prefixer(std::uint32_t node, bool is_error) {
  const auto prefix = has_prefix_ ? names_.at(node) + ": " : std::string();
  return prefixers_.try_emplace({node, is_error}, LinePrefix(prefix)).first->second;
}

AgentLineReader& NodeConsole::reader(std::uint32_t node) {
  return readers_.try_emplace(node, mark_).first->second;
}

void NodeConsole::write(std::uint32_t node, bool is_error, std::string_view bytes) {
  if (!is_error) return show(node, false, bytes);
  for (const auto& piece : reader(node).take(bytes)) {
    if (piece.is_own) {
      on_agent_line(node, piece.line);
    } else {
      show(node, true, piece.bytes);
    }
  }
}

void NodeConsole::on_agent_line(std::uint32_t node, const AgentLine& line) {
  switch (line.kind) {
    case AgentLine::Kind::refusal:
      refusing_.insert(node);
      [[fallthrough]];
    case AgentLine::Kind::line:
      if (!repeated_.is_new(node, line.key.empty() ? line.text : line.key)) return;
      return show_own(node, line.text + "\n");
    case AgentLine::Kind::report:
      return reports_.add_line(node, line.text);
    case AgentLine::Kind::report_end:
      return reports_.end(node);
    case AgentLine::Kind::agent_exit:
      if (const auto exit_code = read_exit_code(line.text)) agent_exits_.emplace(node, *exit_code);
  }
}

std::optional<int> NodeConsole::agent_exit(std::uint32_t node) const {
  const auto found = agent_exits_.find(node);
  return found == agent_exits_.end() ? std::nullopt : std::optional(found->second);
}

/// Reports that differ are shown with the names of their nodes.
void NodeConsole::show_reports() {
  const auto reports = reports_.take();
  for (const auto& [node, report] : reports) {
    if (reports.size() == 1) {
      error_->write(own_, own_.take(report, now()));
    } else {
      show_own(node, report);
    }
  }
}

void NodeConsole::report_loss(const std::string& reason) {
  if (!std::exchange(has_reported_loss_, true)) print(reason);
}

void NodeConsole::show(std::uint32_t node, bool is_error, std::string_view bytes) {
  auto& lines = prefixer(node, is_error);
  (is_error ? error_ : out_)->write(lines, lines.take(bytes, now()));
}

/// `lines` are complete.
void NodeConsole::show_own(std::uint32_t node, const std::string& lines) {
  LinePrefixer prefixed{names_.at(node) + ": "};
  error_->write(own_, prefixed.take(lines, now()));
}

void NodeConsole::finish(std::uint32_t node) {
  show(node, true, reader(node).finish());
  for (const bool is_error : {false, true}) {
    auto& lines = prefixer(node, is_error);
    (is_error ? error_ : out_)->write(lines, lines.finish());
  }
}

void NodeConsole::print(const std::string& line) {
  error_->write(own_, own_.take("ddprun: " + printable(line) + "\n", now()));
}

asio::awaitable<void> NodeConsole::wait_for_room() {
  for (const auto& console : {out_, error_}) {
    while (console->is_full()) co_await console->room().wait();
  }
}

asio::awaitable<void> NodeConsole::drain(Deadline deadline) {
  co_await out_->drain(deadline);
  co_await error_->drain(deadline);
}

}  // namespace ddprun::ssh
