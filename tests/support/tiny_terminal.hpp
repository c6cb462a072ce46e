// A minimal terminal screen: text, newline, carriage return, and the escape sequences that ddprun
// uses. A newline also returns, as terminals usually do.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::test {

class TinyTerminal {
 public:
  explicit TinyTerminal(int columns) : columns_(static_cast<std::size_t>(columns)) {}

  void take(std::string_view text) {
    while (!text.empty()) {
      std::size_t bytes = 1;
      if (text.front() == '\x1b') {
        bytes = take_escape(text);
      } else if (text.front() == '\n') {
        column_ = 0;
        to_row(row_ + 1);
      } else if (text.front() == '\r') {
        column_ = 0;
      } else {
        put(text.front());
      }
      text.remove_prefix(bytes);
    }
  }

  /// Rows from the first one ever written to that of the cursor and below, without trailing spaces.
  std::vector<std::string> rows() const {
    std::vector<std::string> result;
    for (const auto& row : rows_) result.push_back(row.substr(0, row.find_last_not_of(' ') + 1));
    while (!result.empty() && result.back().empty()) result.pop_back();
    return result;
  }

 private:
  std::size_t take_escape(std::string_view text) {
    const auto end = text.find_first_of("AJKm", 2);
    if (text.substr(0, 2) != "\x1b[" || end == std::string_view::npos) std::abort();
    const auto number = std::string(text.substr(2, end - 2));
    const auto count = static_cast<std::size_t>(number.empty() ? 1 : std::stoi(number));
    if (text[end] == 'A') to_row(row_ < count ? 0 : row_ - count);
    if (text[end] != 'm' && text[end] != 'A')
      rows_[row_].resize(std::min(column_, rows_[row_].size()));
    if (text[end] == 'J') rows_.resize(row_ + 1);
    return end + 1;
  }

  void to_row(std::size_t row) {
    row_ = row;
    if (rows_.size() <= row) rows_.resize(row + 1);
  }

  void put(char letter) {
    if (column_ == columns_) {
      column_ = 0;
      to_row(row_ + 1);
    }
    auto& row = rows_[row_];
    if (row.size() <= column_) row.resize(column_ + 1, ' ');
    row[column_++] = letter;
  }

  std::size_t columns_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  std::vector<std::string> rows_{""};
};

}  // namespace ddprun::test
