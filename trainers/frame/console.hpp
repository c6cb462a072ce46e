// Output of the trainer: lines, and a progress bar if standard output is a terminal. Only one
// worker of a run prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainer {

struct BarState {
  std::int64_t epoch = 0;  ///< index of the epoch, from 0
  std::int64_t epochs = 0;
  std::int64_t step = 0;  ///< completed steps of this epoch
  std::int64_t steps = 0;
  double loss = 0;
};

/// Returns "epoch 2/5 [##### ] 118/235 loss 0.4321" in at most `width` columns. Omits parts that do
/// not fit, first the bar.
std::string progress_bar(const BarState& state, std::size_t width);

/// Returns "epoch 2/5: loss 0.4321 after 118 of 235 steps".
std::string unfinished_epoch(const BarState& state);

class Console {
 public:
  /// A quiet console prints nothing.
  explicit Console(bool quiet);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  /// Removes the bar.
  ~Console();

  void line(const std::string& text);

  /// Throws Error{Errc::system} if a line could not be written. Deferred, so that a failed write
  /// does not end the training.
  void check() const;

  /// Redraws the bar, at most ten times per second. Does nothing unless standard output is a
  /// terminal.
  void bar(const BarState& state);

 private:
  void erase_bar();

  bool quiet_;
  bool is_terminal_;
  bool has_bar_ = false;
  int error_ = 0;                        ///< errno of the first failed write; 0 if none
  std::int64_t drawn_milliseconds_ = 0;  ///< time of the last drawing, steady clock
};

}  // namespace trainer
