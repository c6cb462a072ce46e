#include "trainers/frame/console.hpp"

#include "trainers/frame/text.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace trainer {

namespace {

std::int64_t now_milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  struct winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace

std::string progress_bar(const BarState& state, std::size_t width) {
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  const std::string left = format("epoch %lld/%lld", number(state.epoch + 1), number(state.epochs));
  const std::string count = format(" %lld/%lld", number(state.step), number(state.steps));
  const std::string loss = format(" loss %.4f", state.loss);

  const std::size_t text = left.size() + count.size() + loss.size();
  if (text > width) return (left + count).substr(0, width);
  constexpr std::size_t kFrame = 3;     // " [" and "]"
  constexpr std::size_t kSmallest = 5;  // a shorter bar is useless
  constexpr std::size_t kLargest = 60;
  std::string bar;
  if (text + kFrame + kSmallest <= width) {
    const std::size_t cells = std::min(width - text - kFrame, kLargest);
    const auto steps = static_cast<std::size_t>(std::max<std::int64_t>(state.steps, 1));
    const std::size_t filled =
        std::min(cells, cells * static_cast<std::size_t>(state.step) / steps);
    bar = " [" + std::string(filled, '#') + std::string(cells - filled, ' ') + "]";
  }
  return left + bar + count + loss;
}

std::string unfinished_epoch(const BarState& state) {
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  return format("epoch %lld/%lld: loss %.4f after %lld of %lld steps", number(state.epoch) + 1,
                number(state.epochs), state.loss, number(state.step), number(state.steps));
}

Console::Console(bool quiet) : quiet_(quiet), is_terminal_(::isatty(STDOUT_FILENO) == 1) {}

Console::~Console() {
  erase_bar();
}

void Console::line(const std::string& text) {
  if (quiet_) return;
  erase_bar();
  const bool is_written = std::printf("%s\n", text.c_str()) >= 0 && std::fflush(stdout) == 0;
  if (!is_written && error_ == 0) error_ = errno;
}

void Console::check() const {
  if (error_ != 0) ddprun::throw_system_error("writing to standard output", error_);
}

void Console::bar(const BarState& state) {
  constexpr std::int64_t kRedrawMilliseconds = 100;  // milliseconds between redraws
  if (quiet_ || !is_terminal_) return;
  const std::int64_t now = now_milliseconds();
  if (has_bar_ && now - drawn_milliseconds_ < kRedrawMilliseconds) return;
  // Some terminals wrap when the last column is used.
  const std::string text = progress_bar(state, terminal_width() - 1);
  std::printf("\r\x1b[K%s", text.c_str());
  std::fflush(stdout);
  has_bar_ = true;
  drawn_milliseconds_ = now;
}

void Console::erase_bar() {
  if (!has_bar_) return;
  std::printf("\r\x1b[K");
  std::fflush(stdout);
  has_bar_ = false;
}

}  // namespace trainer
