#include "launcher/output/line_prefixer.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

namespace ddprun {

namespace {

/// Appends without sequences that move the cursor to another row or erase others: nested progress
/// bars write them, but here those rows belong to other sources.
void append_row(std::string& out, std::string_view text) {
  for (auto escape = text.find('\x1b'); escape != std::string_view::npos;) {
    const auto end = text.find_first_not_of("[0123456789;", escape + 1);
    const bool leaves_row = end != std::string_view::npos && end > escape + 1 &&
                            std::string_view("ABEFHJSTf").find(text[end]) != std::string_view::npos;
    if (leaves_row) {
      out += text.substr(0, escape);
      text.remove_prefix(end + 1);
      escape = text.find('\x1b');
    } else {
      escape = text.find('\x1b', escape + 1);
    }
  }
  out += text;
}

}  // namespace

std::string_view TimeStamp::at(TimePoint when) {
  constexpr std::size_t kSecondBytes = 19;
  const auto second = std::chrono::floor<std::chrono::seconds>(when);
  if (second != second_) {
    // Once per second: the conversion to local time is more expensive than the rest of a line.
    second_ = second;
    const auto seconds = std::chrono::system_clock::to_time_t(second);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
    text_.assign(text.data()).resize(kSecondBytes, ' ');
    text_ += ".000";
  }
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(when - second).count();
  text_[kSecondBytes + 1] = static_cast<char>('0' + milliseconds / 100);
  text_[kSecondBytes + 2] = static_cast<char>('0' + milliseconds / 10 % 10);
  text_[kSecondBytes + 3] = static_cast<char>('0' + milliseconds % 10);
  return text_;
}

std::string LinePrefixer::take(std::string_view bytes, TimePoint now) {
  if (is_verbatim_) return take_verbatim(bytes);
  std::string out;
  // Lines of usual length, some 20 bytes, need no second allocation.
  if (bytes.size() > 1024) out.reserve(2 * bytes.size());
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    add(out, bytes.substr(0, newline), now);
    if (newline == std::string_view::npos) break;
    end_line(out);
    bytes.remove_prefix(newline + 1);
  }
  return out;
}

/// Returns everything up to the last newline, or all if the rest is too long.
std::string LinePrefixer::take_verbatim(std::string_view bytes) {
  const auto newline = bytes.rfind('\n');
  const auto end = newline == std::string_view::npos ? 0 : newline + 1;
  std::string out;
  if (end > 0) out = std::exchange(partial_, {}).append(bytes.substr(0, end));
  partial_.append(bytes.substr(end));
  if (partial_.size() > kConsoleLineBytesMax) out += std::exchange(partial_, {});
  return give_verbatim(std::move(out));
}

std::string LinePrefixer::give_verbatim(std::string out) {
  if (!out.empty()) is_inside_line_ = out.back() != '\n';
  return out;
}

/// Appends part of a line, without its newline.
void LinePrefixer::add(std::string& out, std::string_view segment, TimePoint now) {
  if (partial_.empty()) began_ = now;
  while (!segment.empty()) {
    // Several carriage returns in a row are one.
    if (has_return_ && segment.front() == '\r') {
      segment.remove_prefix(1);
      continue;
    }
    if (has_return_) rewrite(out, now);
    const auto text = segment.substr(0, segment.find('\r'));
    append(out, text, now);
    segment.remove_prefix(text.size());
    if (segment.empty()) break;
    has_return_ = true;
    segment.remove_prefix(1);
  }
}

void LinePrefixer::append(std::string& out, std::string_view text, TimePoint now) {
  // A full line is split only if it continues.
  while (flushed_bytes_ + partial_.size() + text.size() > kConsoleLineBytesMax) {
    const auto room = kConsoleLineBytesMax - flushed_bytes_ - partial_.size();
    partial_.append(text.substr(0, room));
    text.remove_prefix(room);
    end_line(out);
    began_ = now;
  }
  if (text.empty()) return;
  partial_.append(text);
  is_shown_ = false;
}

void LinePrefixer::rewrite(std::string& out, TimePoint now) {
  // The prompt remains in its row.
  if (is_inside_line_) out += '\n';
  forget_line();
  is_rewritten_ = true;
  began_ = now;
}

void LinePrefixer::end_line(std::string& out) {
  if (!is_shown_) {
    if (!is_inside_line_) put_prefix(out);
    append_row(out, partial_);
    if (has_return_) out += '\r';
    out += '\n';
  }
  forget_line();
}

void LinePrefixer::forget_line() {
  // A single very long line must not keep its memory allocated.
  if (partial_.capacity() > kOpenLineBytesMax) std::string().swap(partial_);
  partial_.clear();
  flushed_bytes_ = 0;
  has_return_ = is_rewritten_ = is_shown_ = is_inside_line_ = false;
}

void LinePrefixer::put_prefix(std::string& out) {
  out += prefix_.parts.front();
  for (std::size_t i = 1; i < prefix_.parts.size(); ++i) {
    out += stamp_.at(began_);
    out += prefix_.parts[i];
  }
}

/// Progress bars that clear themselves write spaces over their last state.
bool LinePrefixer::is_blank() const {
  return partial_.find_first_not_of(' ') == std::string::npos;
}

bool LinePrefixer::has_unshown_text() const {
  return !is_shown_ && !(is_rewritten() ? is_blank() : partial_.empty());
}

std::string LinePrefixer::open_line() {
  std::string out;
  if (!has_unshown_text()) return out;
  put_prefix(out);
  return out.append(partial_, 0, kOpenLineBytesMax);
}

std::string LinePrefixer::flush() {
  if (is_verbatim_) return give_verbatim(std::exchange(partial_, {}));
  std::string out;
  if (!has_unshown_text()) return out;
  if (!is_inside_line_) put_prefix(out);
  append_row(out, partial_);
  if (is_rewritten()) {
    out += '\n';
    is_inside_line_ = false;
    is_shown_ = true;
  } else {
    flushed_bytes_ += partial_.size();
    partial_.clear();
    is_inside_line_ = true;
  }
  return out;
}

std::string LinePrefixer::finish() {
  if (is_verbatim_) return flush();
  std::string out;
  has_return_ = has_return_ && is_blank();
  if (has_unshown_text() || is_inside_line_) {
    end_line(out);
  } else {
    forget_line();
  }
  return out;
}

}  // namespace ddprun
